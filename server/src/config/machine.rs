//! What a configuration names of the machine it is for: processors, sockets, the folders of logs.
//! It makes none of them. Its invariant: what would only fail at a bind, or on a thread of its own, is refused by its key.

use super::{Config, Listen};
use rustix::fs::{Access, access};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// Where the kernel says which processors there are.
const PROCESSORS: &str = "/sys/devices/system/cpu/online";
/// Of `sockaddr_un`, without the zero behind it (Linux' unix(7)).
pub(super) const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Looks whether they are there.
pub(super) fn check(config: &Config) -> Result<(), String> {
    let online = std::fs::read_to_string(PROCESSORS);
    check_processors(&config.server.cpus, online.ok().as_deref())?;
    check_sockets(&config.server.listen_also)?;
    check_logs(config)?;
    config.log.file.as_deref().map_or(Ok(()), check_log)
}

/// The folders of logs, as the start of their engines needs them: no two may be one, which only one of them could open.
fn check_logs(config: &Config) -> Result<(), String> {
    let overlays = config.features.iter().filter_map(|(name, section)| {
        let path = section.overlay.as_ref()?.path.as_deref()?;
        Some((format!("features.{name}.overlay.path"), path))
    });
    let stores = config
        .ordered
        .iter()
        .filter_map(|(name, section)| Some((format!("ordered.{name}.path"), section.path.as_deref()?)));
    let mut named: Vec<(String, PathBuf)> = Vec::new();
    for (key, path) in overlays.chain(stores) {
        check_folder(&key, path, may_write)?;
        let real = path.canonicalize().unwrap_or_else(|_| followed(path));
        if let Some((other, _)) = named.iter().find(|(_, other)| *other == real) {
            return Err(format!(
                "{other} and {key} are one folder, {}; give each a folder of its own",
                path.display()
            ));
        }
        named.push((key, real));
    }
    Ok(())
}

/// Holds them against the kernel's list; a kernel that tells of none is not asked.
fn check_processors(cpus: &[usize], online: Option<&str>) -> Result<(), String> {
    let Some(there) = online.and_then(parse_list) else {
        return Ok(());
    };
    match cpus.iter().find(|cpu| !there.contains(cpu)) {
        None => Ok(()),
        Some(cpu) => Err(format!(
            "server.cpus names processor {cpu}, and this machine has {}; name some of those, or leave server.cpus out",
            online.unwrap_or_default().trim()
        )),
    }
}

/// The kernel's lists of processors: "0-3,8,10-11".
pub(crate) fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        // No machine has more processors.
        if last < first || last > 1 << 16 {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// No two Unix sockets may be one; folders that are links are followed.
fn check_sockets(listen_also: &[Listen]) -> Result<(), String> {
    let mut named: Vec<(usize, &Path, PathBuf)> = Vec::new();
    for (at, listen) in listen_also.iter().enumerate() {
        let Listen::Unix(path) = listen else { continue };
        let refused = |why| format!("server.listen_also[{at}] is unix:{}: {why}", path.display());
        check_socket(path).map_err(refused)?;
        let real = followed(path);
        if let Some((other, found, _)) = named.iter().find(|(_, _, other)| *other == real) {
            let (found, path) = (found.display(), path.display());
            return Err(format!(
                "server.listen_also[{other}] is unix:{found} and server.listen_also[{at}] is unix:{path}, which are one socket; \
                 leave one of them out"
            ));
        }
        named.push((at, path, real));
    }
    Ok(())
}

/// What a bind would refuse, in its words.
fn check_socket(path: &Path) -> Result<(), &'static str> {
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err("choose another path, of at most 107 bytes");
    }
    if !path.parent().is_none_or(|folder| here(folder).is_dir()) {
        return Err("its folder is not there: make it");
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            Err("it is there already and is no socket: choose another path")
        }
        _ => Ok(()),
    }
}

/// The path by its folder's own name, or as it stands where that folder is not there.
pub(super) fn followed(path: &Path) -> PathBuf {
    let real = path
        .parent()
        .zip(path.file_name())
        .and_then(|(folder, name)| Some(here(folder).canonicalize().ok()?.join(name)));
    real.unwrap_or_else(|| path.to_owned())
}

/// A relative path without a folder is in this one.
fn here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    }
}

/// A folder that a start makes where it is not there, but not the one above it, and that it writes in.
fn check_folder(key: &str, folder: &Path, write: MayWrite) -> Result<(), String> {
    let refused = |why: String| Err(format!("{key} is {}{why}", folder.display()));
    let written = |folder: &Path| {
        write(folder).map_err(|error| {
            format!(
                "this user may not write ({error}); let the server's user write there, and check as that user"
            )
        })
    };
    if folder.is_dir() {
        return written(folder).or_else(|why| refused(format!(", where {why}")));
    }
    if folder.symlink_metadata().is_ok() {
        return refused(", which is there and is no folder; name another".to_owned());
    }
    let above = folder.parent().map_or(Path::new("."), here);
    let shown = above.display();
    if !above.is_dir() {
        return refused(format!(
            ", and {shown} is no folder; make it, or name a folder elsewhere"
        ));
    }
    written(above).or_else(|why| refused(format!(", which is not there, and in {shown} {why}")))
}

/// Whether this user may make files in a folder.
type MayWrite = fn(&Path) -> rustix::io::Result<()>;

/// Asks the kernel, and makes nothing.
fn may_write(folder: &Path) -> rustix::io::Result<()> {
    access(folder, Access::WRITE_OK | Access::EXEC_OK)
}

/// The log's file is made when it is not there, its folder is not.
fn check_log(file: &Path) -> Result<(), String> {
    let shown = file.display();
    if file.is_dir() {
        return Err(format!(
            "log.file is {shown}, which is a folder; name a file in it"
        ));
    }
    match file.parent().map(here) {
        Some(folder) if !folder.is_dir() => Err(format!(
            "log.file is {shown}, and {} is no folder; make it, or name a file in another",
            folder.display()
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn processors_are_those_that_the_kernel_tells_of() {
        assert_eq!(check_processors(&[0, 3, 8], Some("0-3,8\n")), Ok(()));
        assert_eq!(check_processors(&[99], None), Ok(()));
        let refused = check_processors(&[0, 4], Some("0-3,8\n")).unwrap_err();
        assert!(
            refused.contains("server.cpus names processor 4, and this machine has 0-3,8;"),
            "{refused}"
        );
    }

    #[test]
    fn the_kernels_lists_are_understood() {
        let check = |text: &str, expected: Option<&[usize]>| {
            assert_eq!(parse_list(text).as_deref(), expected, "{text:?}");
        };
        check("0-3,8,10-11\n", Some(&[0, 1, 2, 3, 8, 10, 11]));
        check("0\n", Some(&[0]));
        check("\n", Some(&[]));
        check("3-1", None);
        check("0-99999999999", None);
        check("a", None);
    }

    #[test]
    fn one_socket_is_named_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| Listen::Unix(folder.path().join(path));
        std::fs::create_dir(folder.path().join("run")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("run"), folder.path().join("link")).unwrap();
        let two = [at("run/a"), at("run/b"), at("a")];
        assert_eq!(check_sockets(&two), Ok(()));
        for other in ["run/a", "./run/./a", "run/../run/a", "link/a"] {
            let listens = [at("run/a"), at("run/b"), at(other)];
            let refused = check_sockets(&listens).unwrap_err();
            assert!(
                refused.contains("server.listen_also[0] is unix:")
                    && refused.contains("server.listen_also[2] is unix:"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_socket_that_cannot_be_made_is_refused_by_its_key() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let long = "s".repeat(108);
        for (name, word) in [
            ("gone/a", "its folder is not there"),
            ("file", "is no socket"),
            (long.as_str(), "at most 107 bytes"),
        ] {
            let listens = [
                Listen::Unix(folder.path().join("a")),
                Listen::Unix(folder.path().join(name)),
            ];
            let refused = check_sockets(&listens).unwrap_err();
            let key = "server.listen_also[1] is unix:";
            assert!(refused.starts_with(key) && refused.contains(word), "{refused}");
        }
        // One that a process before this one left is taken over, and one without a folder is in this one.
        let left = folder.path().join("left");
        drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
        assert_eq!(
            check_sockets(&[Listen::Unix(left), Listen::Unix("a".into())]),
            Ok(())
        );
    }

    #[test]
    fn a_folder_that_cannot_be_made_or_written_in_is_refused_by_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
        let check = |path: &Path, write| check_folder("features.films.overlay.path", path, write);
        for (path, words) in [
            ("file", "which is there and is no folder; name another"),
            ("link", "which is there and is no folder; name another"),
            (
                "file/overlay",
                "file is no folder; make it, or name a folder elsewhere",
            ),
            (
                "gone/overlay",
                "gone is no folder; make it, or name a folder elsewhere",
            ),
        ] {
            let refused = check(&at(path), may_write).unwrap_err();
            assert!(
                refused.starts_with("features.films.overlay.path is ") && refused.ends_with(words),
                "{refused}"
            );
        }
        // Root may write anywhere, so it is not the kernel that denies it here.
        let above = format!(
            ", which is not there, and in {} this user may not write (",
            folder.path().display()
        );
        for (path, words) in [
            (folder.path(), ", where this user may not write ("),
            (&at("overlay"), &above),
        ] {
            let refused = check(path, |_| Err(Errno::ROFS)).unwrap_err();
            assert!(
                refused.contains(words) && refused.contains("let the server's user write there"),
                "{refused}"
            );
        }
        for path in [folder.path(), &at("overlay"), Path::new("overlay")] {
            assert_eq!(check(path, may_write), Ok(()));
        }
        assert!(may_write(&at("gone")).is_err());
        assert!(!at("overlay").exists(), "nothing is made");
    }
}
