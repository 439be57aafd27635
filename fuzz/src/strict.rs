//! Where an HTTP/1.1 request ends and what its body is, read a second time: by the grammar of RFC 9112 alone, and with none of the
//! code under test.
//!
//! It is slow, knows no limits and takes whole requests only. Its invariant: where the grammar leaves a reader a choice, it
//! refuses.

/// A request as far as its framing goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) body: Vec<u8>,
    /// Bytes of the whole request, with the empty line that may stand before it.
    pub(crate) len: usize,
}

/// Reads the request at the front of `input`.
///
/// # Errors
/// Why it is none, or one that can be read in two ways.
pub(crate) fn read(input: &[u8]) -> Result<Request, String> {
    let mut rest = input.strip_prefix(b"\r\n").unwrap_or(input);
    let start = String::from_utf8_lossy(line(&mut rest)?).into_owned();
    let is_1_1 = match start.rsplit_once(' ') {
        Some((_, "HTTP/1.1")) => true,
        Some((_, "HTTP/1.0")) => false,
        _ => return Err(format!("{start:?} names no version")),
    };
    let fields = fields(&mut rest)?;
    let values = |name: &str| -> Vec<&[u8]> {
        let named = fields
            .iter()
            .filter(|(found, _)| found.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_slice()).collect()
    };
    if is_1_1 && values("host").len() != 1 {
        return Err("HTTP/1.1 and not one Host".into());
    }
    let body = match (
        values("content-length").as_slice(),
        values("transfer-encoding").as_slice(),
    ) {
        ([], []) => Vec::new(),
        ([length], []) => take(&mut rest, number(length, 10)?)?.to_vec(),
        ([], [coding]) if is_1_1 && coding.eq_ignore_ascii_case(b"chunked") => chunks(&mut rest)?,
        other => return Err(format!("its length is told as {other:?}")),
    };
    Ok(Request {
        body,
        len: input.len() - rest.len(),
    })
}

/// The bytes before the next CRLF, none of them a line end to anybody.
fn line<'i>(rest: &mut &'i [u8]) -> Result<&'i [u8], String> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n");
    let found = take(rest, end.ok_or("a line without an end")? as u128)?;
    take(rest, 2)?;
    match found.iter().find(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        Some(byte) => Err(format!("a line with the byte {byte:#04x}")),
        None => Ok(found),
    }
}

fn take<'i>(rest: &mut &'i [u8], bytes: u128) -> Result<&'i [u8], String> {
    let bytes = usize::try_from(bytes).map_err(|_| format!("{bytes} bytes announced"))?;
    let (found, behind) = rest.split_at_checked(bytes).ok_or("it is not whole")?;
    *rest = behind;
    Ok(found)
}

/// Names and values up to the empty line.
fn fields(rest: &mut &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut found = Vec::new();
    loop {
        let line = line(rest)?;
        if line.is_empty() {
            return Ok(found);
        }
        let colon = line
            .iter()
            .position(|byte| *byte == b':')
            .ok_or("a field without a colon")?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        let is_token = |byte: &u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(byte);
        if name.is_empty() || !name.iter().all(is_token) {
            return Err(format!(
                "{:?} is no name of a field",
                name.escape_ascii().to_string()
            ));
        }
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
        let from = value
            .iter()
            .position(|byte| !is_space(byte))
            .unwrap_or(value.len());
        let to = value
            .iter()
            .rposition(|byte| !is_space(byte))
            .map_or(from, |last| last + 1);
        found.push((
            String::from_utf8_lossy(name).into_owned(),
            value[from..to].to_vec(),
        ));
    }
}

/// Digits and nothing else.
fn number(text: &[u8], radix: u32) -> Result<u128, String> {
    let digit = |sum: u128, byte: &u8| {
        let digit = char::from(*byte).to_digit(radix)?;
        sum.checked_mul(u128::from(radix))?.checked_add(u128::from(digit))
    };
    let found = text.iter().try_fold(0, digit).filter(|_| !text.is_empty());
    found.ok_or_else(|| format!("{:?} is no number", text.escape_ascii().to_string()))
}

fn chunks(rest: &mut &[u8]) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let line = line(rest)?;
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let size = number(digits, 16)?;
        if size == 0 {
            fields(rest)?;
            return Ok(body);
        }
        body.extend_from_slice(take(rest, size)?);
        if take(rest, 2)? != b"\r\n" {
            return Err("a chunk without its line end".into());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn requests_end_where_the_grammar_says() {
        let check = |input: &str, expected: Option<(&str, usize)>| {
            let read = read(input.as_bytes()).ok();
            let expected = expected.map(|(body, behind)| Request {
                body: body.into(),
                len: input.len() - behind,
            });
            assert_eq!(read, expected, "{input:?}");
        };
        check("GET / HTTP/1.0\r\n\r\nX", Some(("", 1)));
        check("\r\nGET / HTTP/1.1\r\nhost:\r\n\r\n", Some(("", 0)));
        check("GET / HTTP/1.1\r\n\r\n", None);
        let post = |rest: &str| format!("POST / HTTP/1.1\r\nHost: h\r\n{rest}");
        check(&post("Content-Length: 2\r\n\r\n{}X"), Some(("{}", 1)));
        check(&post("Content-Length: 2\n\r\n{}X"), None);
        check(&post("Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"), None);
        let chunked = |body: &str| post(&format!("Transfer-Encoding: chunked\r\n\r\n{body}"));
        check(
            &chunked("1;a\r\n{\r\n1\r\n}\r\n0\r\nT: t\r\n\r\nX"),
            Some(("{}", 1)),
        );
        check(&chunked("2\r\n{}\r\nFFFFFFFFFFFFFFFE\r\n0\r\n\r\n"), None);
        check(&chunked("2\r\n{}0\r\n\r\n"), None);
    }
}
