//! From the text of a formula to its tree: `+ - * /` with spaces around them, functions, figures, numbers.
//!
//! Its invariant: what is not understood is named with its place; nothing is skipped.

use super::{Function, Load, Node, Path, Series};

/// How deep parentheses may stand in each other.
const DEPTH_MAX: usize = 32;

pub(super) fn parse(text: &str, external: &[&str]) -> Result<Node, String> {
    let mut reader = Reader {
        text,
        at: 0,
        depth: 0,
        external,
    };
    let node = reader.sum()?;
    match reader.rest().is_empty() {
        true => Ok(node),
        false => Err(reader.bad("an operator, or the end")),
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    external: &'t [&'t str],
}

impl<'t> Reader<'t> {
    /// What is left, without the blanks before it.
    fn rest(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn bad(&mut self, expected: &str) -> String {
        let found: String = self.rest().chars().take(12).collect();
        let place = self.text[..self.at].chars().count() + 1;
        format!(
            "character {place}: found {found:?}, expected {expected}; write a formula such as \"ratio(millpond.qps, tokio.qps)\""
        )
    }

    fn take(&mut self, token: &str) -> bool {
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    fn want(&mut self, token: &str) -> Result<(), String> {
        match self.take(token) {
            true => Ok(()),
            false => Err(self.bad(&format!("{token:?}"))),
        }
    }

    fn sum(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.bad("fewer parentheses"));
        }
        let node = self.combined(&['+', '-'], |reader| reader.combined(&['*', '/'], Reader::factor));
        self.depth -= 1;
        node
    }

    fn combined(
        &mut self,
        operators: &[char],
        part: impl Fn(&mut Reader<'t>) -> Result<Node, String>,
    ) -> Result<Node, String> {
        let mut node = part(self)?;
        while let Some(operator) = self.rest().chars().next().filter(|next| operators.contains(next)) {
            self.at += 1;
            node = Node::Combine(operator, Box::new(node), Box::new(part(self)?));
        }
        Ok(node)
    }

    fn factor(&mut self) -> Result<Node, String> {
        let next = self.rest().chars().next();
        match next {
            Some('(') => {
                self.at += 1;
                let node = self.sum()?;
                self.want(")")?;
                Ok(node)
            }
            Some(digit) if digit.is_ascii_digit() => {
                let number = self.while_is(|c| c.is_ascii_digit() || matches!(c, '.' | '_' | 'e'));
                let number = number.replace('_', "").parse();
                number.map(Node::Number).map_err(|_| self.bad("a number"))
            }
            Some(letter) if letter.is_ascii_alphabetic() || letter == '\'' => self.named(),
            _ => Err(self.bad("a figure such as millpond.qps, a number, or a function")),
        }
    }

    fn while_is(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// A name in quotes, or one of letters, digits, `-` and `_`.
    fn name(&mut self) -> Result<String, String> {
        if self.take("'") {
            let name = self.while_is(|c| c != '\'').to_owned();
            self.want("'")?;
            return Ok(name);
        }
        let name = self.while_is(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        match name.is_empty() {
            true => Err(self.bad("a name")),
            false => Ok(name.to_owned()),
        }
    }

    /// A function, a figure of a target, or the values of a command.
    fn named(&mut self) -> Result<Node, String> {
        let begin = self.at;
        let name = self.name()?;
        if self.take("(") {
            let Some((_, function, takes)) = FUNCTIONS.iter().find(|(known, ..)| *known == name) else {
                let known: Vec<&str> = FUNCTIONS.iter().map(|(known, ..)| *known).collect();
                self.at = begin;
                return Err(self.bad(&format!("a function: {}", known.join(", "))));
            };
            let mut parts = vec![self.sum()?];
            while self.take(",") {
                parts.push(self.sum()?);
            }
            self.want(")")?;
            if parts.len() != *takes && !matches!(function, Function::Highest) {
                return Err(format!("{name} takes {takes} values, found {}", parts.len()));
            }
            return Ok(Node::Call(*function, parts));
        }
        if self.external.contains(&name.as_str()) {
            return Ok(Node::External(name));
        }
        let load = match self.take("@") {
            true => Some(self.load()?),
            false => None,
        };
        self.want(".")?;
        let figure = self.name()?;
        let argument = match self.take("(") {
            true => Some(self.argument()?),
            false => None,
        };
        Ok(Node::Of(Path {
            target: name,
            load,
            figure,
            argument,
        }))
    }

    /// `3000`, `50000/s` or `key=value`.
    fn load(&mut self) -> Result<Load, String> {
        let name = self.name()?;
        if self.take("=") {
            return Ok(Load::Grid(name, self.name()?));
        }
        let is_rate = self.take("/s");
        let expected =
            "a number of connections, a rate such as 50000/s, or a value of the grid such as level=5";
        let number: usize = name.parse().map_err(|_| self.bad(expected))?;
        Ok(match is_rate {
            true => Load::Rate(number as f64),
            false => Load::Connections(number),
        })
    }

    /// A number, or text in double quotes.
    fn argument(&mut self) -> Result<String, String> {
        let argument = match self.take("\"") {
            true => {
                let mut argument = String::new();
                // Labels of metrics hold quotes of their own: the last one before the parenthesis ends it.
                while !self.text[self.at..].starts_with("\")") {
                    let Some(next) = self.text[self.at..].chars().next() else {
                        return Err(self.bad("\")"));
                    };
                    argument.push(next);
                    self.at += next.len_utf8();
                }
                self.at += 1;
                argument
            }
            false => self.while_is(|c| c.is_ascii_digit()).to_owned(),
        };
        self.want(")")?;
        Ok(argument)
    }
}

/// Their names, and how many values each takes; `highest` takes any number.
const FUNCTIONS: [(&str, Function, usize); 11] = [
    ("ratio", Function::Ratio, 2),
    ("median", Function::Reduce(Series::median), 1),
    ("mean", Function::Reduce(Series::mean), 1),
    ("min", Function::Reduce(Series::min), 1),
    ("max", Function::Reduce(Series::max), 1),
    ("sum", Function::Reduce(Series::sum), 1),
    ("farthest", Function::Farthest, 2),
    ("best", Function::Best, 1),
    ("highest", Function::Highest, 2),
    ("last", Function::Reduce(Series::last), 1),
    ("upper", Function::Upper, 1),
];
