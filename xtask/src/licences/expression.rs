//! Licence expressions as packages declare them: SPDX with OR, AND, WITH and parentheses, and the old `MIT/Apache-2.0`.
//!
//! AND binds tighter than OR. An expression is satisfied when some choice of its ORs needs allowed licences alone.

/// Whether `text` can be satisfied by licences of `allowed` alone; the error says what was expected where.
pub fn satisfied(text: &str, allowed: &[&str]) -> Result<bool, String> {
    let mut parser = Parser {
        tokens: tokens(text),
        next: 0,
        allowed,
    };
    let satisfied = parser.any()?;
    match parser.peek() {
        None => Ok(satisfied),
        Some(token) => Err(format!("expected AND, OR or the end, found {token:?}")),
    }
}

/// Splits at blanks, around parentheses, and reads a slash as OR.
fn tokens(text: &str) -> Vec<String> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

struct Parser<'a> {
    tokens: Vec<String>,
    next: usize,
    allowed: &'a [&'a str],
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.next).map(String::as_str)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.next += usize::from(found);
        found
    }

    fn any(&mut self) -> Result<bool, String> {
        let mut satisfied = self.all()?;
        while self.take("OR") {
            satisfied |= self.all()?;
        }
        Ok(satisfied)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut satisfied = self.one()?;
        while self.take("AND") {
            satisfied &= self.one()?;
        }
        Ok(satisfied)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let satisfied = self.any()?;
            return if self.take(")") {
                Ok(satisfied)
            } else {
                Err("expected ) before the end".to_owned())
            };
        }
        let mut name = self.name()?;
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.name()?);
        }
        Ok(self.allowed.contains(&name.as_str()))
    }

    fn name(&mut self) -> Result<String, String> {
        match self.peek().map(str::to_owned) {
            Some(token) if !["AND", "OR", "WITH", "(", ")"].contains(&token.as_str()) => {
                self.next += 1;
                Ok(token)
            }
            Some(token) => Err(format!("expected a licence, found {token:?}")),
            None => Err("expected a licence, found the end".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<bool, &str>) {
        let allowed = [
            "MIT",
            "Apache-2.0",
            "Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ];
        assert_eq!(
            satisfied(text, &allowed),
            expected.map_err(str::to_owned),
            "{text}"
        );
    }

    #[test]
    fn or_needs_one_and_and_needs_all() {
        check("MIT", Ok(true));
        check("GPL-2.0", Ok(false));
        check("GPL-2.0 OR MIT", Ok(true));
        check("GPL-2.0 AND MIT", Ok(false));
        check("(MIT OR Apache-2.0) AND Unicode-3.0", Ok(true));
        check("(MIT OR Apache-2.0) AND GPL-2.0", Ok(false));
    }

    #[test]
    fn and_binds_tighter_than_or() {
        check("MIT OR GPL-2.0 AND GPL-3.0", Ok(true));
        check("GPL-2.0 AND MIT OR GPL-3.0", Ok(false));
        check("GPL-2.0 AND (MIT OR GPL-3.0)", Ok(false));
    }

    #[test]
    fn the_slash_of_old_manifests_is_or() {
        check("MIT/Apache-2.0", Ok(true));
        check("GPL-2.0 / MIT", Ok(true));
        check("GPL-2.0/LGPL-2.1", Ok(false));
    }

    #[test]
    fn an_exception_is_part_of_the_name() {
        check("Apache-2.0 WITH LLVM-exception", Ok(true));
        check("MIT WITH LLVM-exception", Ok(false));
    }

    #[test]
    fn what_is_not_an_expression_is_an_error() {
        check("", Err("expected a licence, found the end"));
        check("MIT OR", Err("expected a licence, found the end"));
        check("OR MIT", Err("expected a licence, found \"OR\""));
        check("(MIT", Err("expected ) before the end"));
        check(
            "MIT Apache-2.0",
            Err("expected AND, OR or the end, found \"Apache-2.0\""),
        );
        check("MIT)", Err("expected AND, OR or the end, found \")\""));
    }
}
