//! The commands that a text says: in code blocks of Markdown, and in comments that are set in by two spaces and more.

const PROGRAMS: &[&str] = &[
    "millpond",
    "make",
    ".ci/run",
    "cargo",
    "curl",
    "python3",
    "python3.11",
    ".demo/venv/bin/python",
    "podman",
    "docker",
    "openssl",
    "chmod",
    "systemctl",
    "sysctl",
    "apt",
    "apt-get",
    "sudo",
    "ulimit",
    "kill",
    "for",
    "echo",
];

/// One command, or the lines of a shell's loop.
#[derive(Debug, Clone)]
pub struct Written {
    pub command: String,
    /// The number of its block, from 0.
    pub block: usize,
    /// Whether the block is a shell's, whose lines belong together.
    pub is_shell: bool,
}

/// All of them, in their order.
pub fn written(text: &str) -> Vec<Written> {
    read(text).0
}

/// Lines that are a shell's and begin with no program that is known here: of `sh` blocks, or behind a `$ `.
pub fn strange(text: &str) -> Vec<String> {
    read(text).1
}

fn read(text: &str) -> (Vec<Written>, Vec<String>) {
    let (mut found, mut strange) = (Vec::new(), Vec::new());
    let (mut block, mut language) = (0, None);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("```") {
            language = match language {
                Some(_) => None,
                None => Some(rest.trim().to_owned()),
            };
            block += 1;
            continue;
        }
        let said = line.strip_prefix("$ ").filter(|_| language.is_some());
        let candidate = match language.as_deref() {
            Some("" | "sh" | "console") if said.is_some() => said,
            Some("" | "sh") => Some(line),
            Some(_) => None,
            None => line.strip_prefix("#  ").map(str::trim_start),
        };
        let Some(first) = candidate else { continue };
        let is_shell = language.as_deref() == Some("sh");
        let is_told = is_shell || said.is_some();
        if !is_command(first, is_told) {
            if is_told && !first.trim().is_empty() && !first.trim_start().starts_with('#') {
                strange.push(first.to_owned());
            }
            continue;
        }
        let mut command = first.to_owned();
        // A quotation, a line that ends with a backslash and a loop go on.
        while (has_open_quotation(&command) || command.ends_with('\\') || is_open_loop(&command))
            && let Some(next) = lines.next()
        {
            command += &format!("\n{next}");
        }
        found.push(Written {
            // What follows a scenario's command at a distance describes it.
            command: match language {
                None => command
                    .split("   ")
                    .next()
                    .unwrap_or_default()
                    .trim_end()
                    .to_owned(),
                Some(_) => command,
            },
            block,
            is_shell,
        });
    }
    (found, strange)
}

/// Apostrophes in what stands behind a # open none.
fn has_open_quotation(command: &str) -> bool {
    let code = |line: &str| {
        line.split("  #")
            .next()
            .map_or(0, |code| code.matches('\'').count())
    };
    command.lines().map(code).sum::<usize>() % 2 == 1
}

fn is_open_loop(command: &str) -> bool {
    command.starts_with("for ") && !command.contains("\ndone")
}

/// Where nothing tells that a shell is spoken to, a word alone is a word.
fn is_command(line: &str, is_told: bool) -> bool {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    PROGRAMS.contains(&first) && (is_told || words.next().is_some())
}

#[test]
fn commands_are_told_from_what_they_print() {
    let text = "# A head.\n#\n#   millpond press run a.toml --set load.in_flight=4   pipelined\n# millpond is a word\n\n\
                ```\n$ curl -s x -d '{\"a\":\n  1}'\n{\"made\": 1}\nmillpond call a   # R1's\n```\n\n```toml\nmake = 1\n```\n\
                ```sh\nfor x in 1 2; do\n    millpond $x\ndone\nmillpond b\n```\nmillpond c d\n";
    let found: Vec<(String, bool)> = written(text)
        .into_iter()
        .map(|written| (written.command, written.is_shell))
        .collect();
    let expected = [
        ("millpond press run a.toml --set load.in_flight=4", false),
        ("curl -s x -d '{\"a\":\n  1}'", false),
        ("millpond call a   # R1's", false),
        ("for x in 1 2; do\n    millpond $x\ndone", true),
        ("millpond b", true),
    ];
    assert_eq!(
        found,
        expected.map(|(command, is_shell)| (command.to_owned(), is_shell))
    );
}

#[test]
fn a_shells_line_that_begins_with_no_known_program_is_strange() {
    let check = |text: &str, expected: &[&str]| assert_eq!(strange(text), expected, "{text}");
    check(
        "```sh\n# why\n\nmillpond a\nredis-cli ping\nkill\n```\n",
        &["redis-cli ping"],
    );
    check("```\n$ wget x\nwget is what it prints\n```\n", &["wget x"]);
    check("```console\n$ make\nmade\n$ ls\n```\n", &["ls"]);
    check("```toml\n$ x\n```\n$ y\n#   z a\n", &[]);
    check("```sh\nfor x in 1; do\n    whatever\ndone\n```\n", &[]);
}
