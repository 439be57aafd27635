//! Which files an input names: a path, a pattern, or a pair of NPY files.
//!
//! Reads none of them. Its invariant: an input names one file or more, and the order of the files follows from their names alone.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Format, Input, npy};
use crate::error::Error;

/// The files of all inputs, in their order; those of a pattern are sorted by name.
pub(crate) fn expand(inputs: &[String], format: Option<&'static Format>) -> Result<Vec<Input>, Error> {
    let mut files = Vec::new();
    for input in inputs {
        if let Some((keys, rows)) = pair(input, format) {
            files.push(opened(keys, Some(rows), Some(&npy::FORMAT))?);
            continue;
        }
        for path in matching(input)? {
            files.push(opened(path, None, format)?);
        }
    }
    Ok(files)
}

/// `keys.npy,rows.npy`: a comma in the name of any other file is a comma.
fn pair(input: &str, format: Option<&'static Format>) -> Option<(PathBuf, PathBuf)> {
    let (keys, rows) = input.split_once(',')?;
    let is_npy = |path: &str| match format {
        Some(format) => format.name == npy::FORMAT.name,
        None => path.to_ascii_lowercase().ends_with(".npy"),
    };
    (is_npy(keys) && is_npy(rows)).then(|| (keys.into(), rows.into()))
}

/// A file of that very name, or all that match it as a pattern.
fn matching(input: &str) -> Result<Vec<PathBuf>, Error> {
    if !input.contains(['*', '?', '[']) || Path::new(input).exists() {
        return Ok(vec![PathBuf::from(input)]);
    }
    let wrong = |problem: String| Error::Pattern {
        pattern: input.to_owned(),
        problem,
    };
    let options = glob::MatchOptions {
        require_literal_leading_dot: true,
        ..glob::MatchOptions::default()
    };
    let found = glob::glob_with(input, options).map_err(|error| wrong(error.to_string()))?;
    let mut paths = Vec::new();
    for path in found {
        let path = path.map_err(|error| wrong(error.to_string()))?;
        if !path.is_dir() {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(wrong("no file matches it".to_owned()));
    }
    paths.sort();
    Ok(paths)
}

fn opened(
    path: PathBuf,
    rows_path: Option<PathBuf>,
    format: Option<&'static Format>,
) -> Result<Input, Error> {
    let format = format
        .or_else(|| Format::by_extension(&path))
        .ok_or_else(|| Error::NoFormat {
            path: path.clone(),
            known: Format::all().iter().map(|format| format.name()).collect(),
        })?;
    let mut bytes = 0;
    for path in [Some(&path), rows_path.as_ref()].into_iter().flatten() {
        let metadata = fs::metadata(path).map_err(Error::open(path))?;
        bytes += metadata.len();
    }
    Ok(Input {
        path,
        rows_path,
        given: None,
        format,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn inputs_are_paths_patterns_and_pairs() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "b-2.csv",
            "b-10.csv",
            "a.parquet",
            ".b-3.csv",
            "a,b.jsonl",
            "k.npy",
            "v.npy",
            "b[1].csv",
        ] {
            fs::write(dir.path().join(name), name).unwrap();
        }
        fs::create_dir(dir.path().join("b-dir.csv")).unwrap();
        let check = |input: &str, format: Option<&str>, expected: Result<&[(&str, &str)], &str>| {
            let input = input.replace("DIR", dir.path().to_str().unwrap());
            let format = format.and_then(Format::by_name);
            let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
            match (expand(&[input], format), expected) {
                (Ok(files), Ok(expected)) => {
                    let got: Vec<_> = files
                        .iter()
                        .map(|file| {
                            let names = [Some(&file.path), file.rows_path.as_ref()].into_iter().flatten();
                            (
                                names.map(|path| name(path)).collect::<Vec<_>>().join("+"),
                                file.format.name(),
                            )
                        })
                        .collect();
                    let expected: Vec<_> = expected.iter().map(|&(a, b)| (a.to_owned(), b)).collect();
                    assert_eq!(got, expected);
                }
                (got, expected) => {
                    let error = got.unwrap_err().to_string();
                    assert!(error.contains(expected.unwrap_err()), "{error}");
                }
            }
        };
        check("DIR/a.parquet", None, Ok(&[("a.parquet", "parquet")]));
        check(
            "DIR/b-*.csv",
            None,
            Ok(&[("b-10.csv", "csv"), ("b-2.csv", "csv")]),
        );
        check("DIR/b[1].csv", None, Ok(&[("b[1].csv", "csv")]));
        check("DIR/b-?.csv", Some("jsonl"), Ok(&[("b-2.csv", "jsonl")]));
        check("DIR/a,b.jsonl", None, Ok(&[("a,b.jsonl", "jsonl")]));
        check("DIR/k.npy,DIR/v.npy", None, Ok(&[("k.npy+v.npy", "npy")]));
        check("DIR/k.npy,DIR/v.npy", Some("npy"), Ok(&[("k.npy+v.npy", "npy")]));
        check("DIR/c-*.csv", None, Err("no file matches it"));
        check("DIR/[", None, Err("invalid range pattern"));
        check("DIR/c.csv", None, Err("cannot open"));
        check("DIR/k", None, Err("--format parquet, arrow, csv, jsonl, npy"));
    }
}
