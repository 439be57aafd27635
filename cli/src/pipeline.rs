//! `millpond pipeline show`: pipelines of a configuration drawn as text or SVG, and files of torchpipe translated.
//! Its invariant: what is drawn is the plan that the server would run.

mod graph;
mod svg;
mod text;

use crate::serve::Source;
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};
use graph::{Graph, Node};
use millpond_pipelines::torchpipe::{Translation, looks_like, translate};
use millpond_pipelines::{Description, Plan, PlannedFilter, PlannedStage, RequestKind, Taken};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;

/// What to do with pipelines.
#[derive(Subcommand)]
pub(crate) enum Pipeline {
    /// Draw the pipelines of a configuration, or translate a file of torchpipe and draw it.
    Show(Show),
}

const EXAMPLES: &str = "\
Examples:
  millpond pipeline show config.toml
  millpond pipeline show config.toml --pipeline page --format svg > page.svg
  millpond pipeline show torchpipe.toml --from torchpipe
  millpond pipeline show torchpipe.toml --from torchpipe --format toml > millpond.toml

In text, each line is an input or a stage with what it does and what it takes; * marks what the answer has.";

/// Draws each pipeline: its inputs and stages in the order in which they run, and what each takes of which. The configuration is checked as `serve`
/// checks it, and nothing is opened.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// The configuration, or the file of torchpipe.
    file: PathBuf,
    /// Format of the file: millpond or torchpipe. A file of torchpipe is translated first; a line for each of its keys says what became of it.
    #[arg(long, value_enum, default_value_t = From::Millpond)]
    from: From,
    /// The pipeline to draw; all of them when left out.
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// text, svg (one pipeline), or toml (the translation).
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    source: Source,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum From {
    /// Sections of Millpond's own configuration.
    Millpond,
    /// Nodes as torchpipe's TOML files have them.
    Torchpipe,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line a stage.
    Text,
    /// A picture of one pipeline.
    Svg,
    /// Millpond's configuration, of a file of torchpipe.
    Toml,
}

pub(crate) fn run(Pipeline::Show(show): &Pipeline) -> anyhow::Result<()> {
    let shown = match show.from {
        From::Millpond if show.format == Format::Toml => {
            bail!("--format toml is for a translation; add --from torchpipe")
        }
        From::Millpond => drawn(show, &own(show)?)?,
        From::Torchpipe => translated(show)?,
    };
    let mut out = std::io::stdout().lock();
    match out.write_all(shown.as_bytes()).and_then(|()| out.flush()) {
        // Whoever has read enough, as `head`, is no error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// The pipelines of a configuration of Millpond's.
fn own(show: &Show) -> anyhow::Result<BTreeMap<String, Description>> {
    let file = &show.file;
    let refused = match show.source.load(Some(file.clone()), None) {
        Ok(config) => return Ok(config.pipelines),
        Err(error) => anyhow::Error::from(error),
    };
    Err(match std::fs::read_to_string(file) {
        Ok(text) if looks_like(&text) => refused.context(format!(
            "{} looks like a file of torchpipe: add --from torchpipe; as a configuration of Millpond it is refused",
            file.display()
        )),
        _ => refused,
    })
}

/// A file of torchpipe as it is asked for: its configuration, or the notes and the drawing.
fn translated(show: &Show) -> anyhow::Result<String> {
    let file = &show.file;
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    // Only the program that opens the file knows what it has registered.
    let translated = translate(&text, &BTreeSet::new()).with_context(|| file.display().to_string())?;
    let Translation { sections, notes, .. } = translated;
    let comments: String = notes.iter().map(|note| format!("# {note}\n")).collect();
    let toml = toml::to_string(&sections).context("cannot write the translation")?;
    if show.format == Format::Toml {
        return Ok(format!("{comments}\n{toml}"));
    }
    #[derive(serde::Deserialize)]
    struct Translated {
        pipelines: BTreeMap<String, Description>,
    }
    let translated: Translated = toml::from_str(&toml).context("the translation does not fit")?;
    let drawing = drawn(show, &translated.pipelines)?;
    Ok(match show.format {
        Format::Text => format!("{comments}\n{drawing}"),
        _ => drawing,
    })
}

/// The pipelines that are asked for.
fn drawn(show: &Show, pipelines: &BTreeMap<String, Description>) -> anyhow::Result<String> {
    let there = || {
        pipelines
            .keys()
            .map(String::as_str)
            .collect::<Vec<&str>>()
            .join(", ")
    };
    let wanted: Vec<&String> = match &show.pipeline {
        None => pipelines.keys().collect(),
        Some(name) => match pipelines.get_key_value(name) {
            Some((name, _)) => vec![name],
            None if pipelines.is_empty() => bail!("{} has no pipeline", show.file.display()),
            None => bail!(
                "{} has no pipeline {name:?}; there are {}",
                show.file.display(),
                there()
            ),
        },
    };
    match (wanted.as_slice(), show.format) {
        ([], _) => bail!("{} has no pipeline; add [pipelines.NAME]", show.file.display()),
        ([_, _, ..], Format::Svg) => {
            bail!("a picture has one pipeline; name it with --pipeline: {}", there())
        }
        _ => {}
    }
    let mut drawings = Vec::with_capacity(wanted.len());
    for name in wanted {
        let plan = pipelines[name].plan_among(name, pipelines)?;
        let graph = graph_of(&plan);
        drawings.push(match show.format {
            Format::Svg => svg::draw(&graph),
            _ => text::draw(&graph),
        });
    }
    Ok(drawings.join("\n"))
}

/// A plan as a drawing sees it: its inputs, then its stages.
fn graph_of(plan: &Plan) -> Graph {
    let inputs = plan.inputs.len();
    let mut nodes: Vec<Node> = Vec::with_capacity(inputs + plan.stages.len());
    nodes.extend(plan.inputs.iter().map(|input| Node {
        name: input.to_string(),
        is_input: true,
        ..Node::default()
    }));
    let place = |taken: &Taken| match taken {
        Taken::Input(at) => *at,
        Taken::Stage(at) | Taken::Output(at, _) => inputs + at,
    };
    for (at, stage) in plan.stages.iter().enumerate() {
        let is_output = match plan.request {
            RequestKind::Values => plan.outputs.iter().any(|(_, taken)| place(taken) == inputs + at),
            _ => at + 1 == plan.stages.len(),
        };
        nodes.push(node_of(stage, is_output, &place));
    }
    let request = match plan.request {
        RequestKind::Rank => "rank",
        RequestKind::Samples => "samples",
        RequestKind::Values => "values",
    };
    Graph {
        title: format!("pipeline {:?}, request = {request:?}", plan.name),
        nodes,
    }
}

fn node_of(stage: &PlannedStage, is_output: bool, place: &impl Fn(&Taken) -> usize) -> Node {
    let (mut takes, mut filters) = (Vec::new(), Vec::new());
    takes.extend(stage.takes.iter().map(place));
    for filter in &stage.filters {
        let (word, taken) = match filter {
            PlannedFilter::Skip(condition, taken) => (format!("skip: {condition}"), taken),
            PlannedFilter::Break(condition, taken) => (format!("break: {condition}"), taken),
            PlannedFilter::Or(taken) => ("or".to_owned(), taken),
        };
        filters.push(word);
        takes.push(place(taken));
    }
    takes.sort_unstable();
    takes.dedup();
    Node {
        name: stage.name.clone(),
        does: stage.does(),
        filter: Some(filters.join(", ")).filter(|filters| !filters.is_empty()),
        takes,
        is_output,
        is_input: false,
    }
}
