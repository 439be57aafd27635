//! torchpipe's `backend` expressions: `S[DecodeMat,(or)Default(text=none)]`. It knows no backend.
//!
//! Its invariant: what is read was read to its end, and is at most [`DEPTH_MAX`] brackets deep.

/// Brackets inside each other.
const DEPTH_MAX: usize = 16;

/// `(filter)Name(key=value)[Inside, …]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Member {
    pub(super) filter: Option<String>,
    pub(super) name: String,
    pub(super) arguments: Vec<(String, String)>,
    pub(super) inside: Vec<Member>,
}

/// Reads an expression, with the members of chains (`S[…]`, `Sequential[…]`) in one list.
///
/// # Errors
/// What is wrong, and behind which part.
pub(super) fn parse(text: &str) -> Result<Vec<Member>, String> {
    let mut reader = Reader { text, at: 0 };
    let members = reader.members(0)?;
    match reader.peek() {
        None => Ok(members.into_iter().flat_map(unchained).collect()),
        Some(_) => Err(reader.expected("\",\" or the end")),
    }
}

/// The members of a chain, or the member itself.
fn unchained(member: Member) -> Vec<Member> {
    let is_chain = matches!(member.name.as_str(), "S" | "Sequential") && member.filter.is_none();
    match is_chain {
        true => member.inside.into_iter().flat_map(unchained).collect(),
        false => vec![member],
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.rest().chars().next()
    }

    /// Takes `wanted` if it is next.
    fn take(&mut self, wanted: char) -> bool {
        let is_next = self.peek() == Some(wanted);
        if is_next {
            self.at += wanted.len_utf8();
        }
        is_next
    }

    fn expected(&self, what: &str) -> String {
        match self.rest().trim_start() {
            "" => format!("`{}` ends where {what} is expected", self.text),
            rest => format!("`{}` has `{rest}` where {what} is expected", self.text),
        }
    }

    /// Up to one of `ends`, which stays.
    fn until(&mut self, ends: &[char], what: &str) -> Result<String, String> {
        self.peek();
        let rest = self.rest();
        let end = rest.find(ends).unwrap_or(rest.len());
        let found = rest.get(..end).unwrap_or_default().trim();
        if found.is_empty() {
            return Err(self.expected(what));
        }
        self.at += end;
        Ok(found.to_owned())
    }

    fn members(&mut self, depth: usize) -> Result<Vec<Member>, String> {
        if depth > DEPTH_MAX {
            return Err(format!(
                "`{}` has more than {DEPTH_MAX} brackets inside each other",
                self.text
            ));
        }
        let mut members = vec![self.member(depth)?];
        while self.take(',') {
            members.push(self.member(depth)?);
        }
        Ok(members)
    }

    fn member(&mut self, depth: usize) -> Result<Member, String> {
        let mut member = Member::default();
        if self.take('(') {
            member.filter = Some(self.until(&[')'], "a filter")?);
            self.close(')')?;
        }
        member.name = self.until(&[',', '[', ']', '(', ')'], "a backend")?;
        if self.take('(') {
            member.arguments = self.arguments()?;
        }
        if self.take('[') {
            member.inside = self.members(depth + 1)?;
            self.close(']')?;
        }
        Ok(member)
    }

    /// `key=value, …)`.
    fn arguments(&mut self) -> Result<Vec<(String, String)>, String> {
        let mut arguments = Vec::new();
        loop {
            let key = self.until(&['=', ',', ')'], "key=value")?;
            if !self.take('=') {
                return Err(self.expected("\"=\" and a value"));
            }
            let value = self.until(&[',', ')'], "a value")?;
            arguments.push((key, value));
            if !self.take(',') {
                self.close(')')?;
                return Ok(arguments);
            }
        }
    }

    fn close(&mut self, bracket: char) -> Result<(), String> {
        match self.take(bracket) {
            true => Ok(()),
            false => Err(self.expected(&format!("\"{bracket}\""))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn written(members: &[Member]) -> String {
        let one = |member: &Member| {
            let filter = member.filter.as_ref().map(|filter| format!("({filter})"));
            let arguments: Vec<String> = member
                .arguments
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            let arguments = match arguments.is_empty() {
                true => String::new(),
                false => format!("({})", arguments.join(",")),
            };
            let inside = match member.inside.is_empty() {
                true => String::new(),
                false => format!("[{}]", written(&member.inside)),
            };
            format!("{}{}{arguments}{inside}", filter.unwrap_or_default(), member.name)
        };
        members.iter().map(one).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn an_expression_is_a_list_of_members() {
        let check =
            |text: &str, expected: &str| assert_eq!(written(&parse(text).unwrap()), expected, "{text}");
        check("DecodeMat", "DecodeMat");
        check("S[A, B]", "A,B");
        check("Sequential[A,S[B,C]],D", "A,B,C,D");
        check("SyncTensor[ResizeTensor]", "SyncTensor[ResizeTensor]");
        check("A(key=1x3x2, b = c d)[X],(or)B", "A(key=1x3x2,b=c d)[X],(or)B");
        check("(or)S[A,B]", "(or)S[A,B]");
    }

    #[test]
    fn what_is_no_expression_is_refused_with_its_place() {
        let check = |text: &str, expected: &str| assert_eq!(parse(text).unwrap_err(), expected);
        check("", "`` ends where a backend is expected");
        check("S[A,", "`S[A,` ends where a backend is expected");
        check("S[A", "`S[A` ends where \"]\" is expected");
        check("A]", "`A]` has `]` where \",\" or the end is expected");
        check("(or", "`(or` ends where \")\" is expected");
        check("A(b)", "`A(b)` has `)` where \"=\" and a value is expected");
        check("A(b=)", "`A(b=)` has `)` where a value is expected");
        let deep = "A[".repeat(DEPTH_MAX + 2);
        assert!(
            parse(&deep)
                .unwrap_err()
                .ends_with("more than 16 brackets inside each other")
        );
    }
}
