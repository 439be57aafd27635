//! Replies, in the version that the client has asked for.
//!
//! Its invariant: no text of an error or a status holds a line end, whatever it quotes.

/// The version of the protocol that a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RespVersion {
    /// RESP2, with which a connection begins.
    #[default]
    Two,
    /// RESP3.
    Three,
}

impl RespVersion {
    /// The version of that number.
    pub fn from_number(number: i64) -> Option<RespVersion> {
        match number {
            2 => Some(RespVersion::Two),
            3 => Some(RespVersion::Three),
            _ => None,
        }
    }

    /// Its number.
    pub fn number(self) -> i64 {
        match self {
            RespVersion::Two => 2,
            RespVersion::Three => 3,
        }
    }
}

/// Writes replies; an array or a map is followed by as many as it announces.
pub struct RespReply<'o> {
    out: &'o mut Vec<u8>,
    version: RespVersion,
}

impl<'o> RespReply<'o> {
    /// Appends to `out`.
    #[inline]
    pub fn new(out: &'o mut Vec<u8>, version: RespVersion) -> RespReply<'o> {
        RespReply { out, version }
    }

    /// The version that it writes.
    pub fn version(&self) -> RespVersion {
        self.version
    }

    fn line(&mut self, tag: u8, text: &str) {
        self.out.push(tag);
        let bytes = text.bytes();
        self.out.extend(bytes.map(|byte| match byte {
            b'\r' | b'\n' => b' ',
            other => other,
        }));
        self.out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn number(&mut self, tag: u8, number: i64) {
        self.out.push(tag);
        self.out
            .extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// A status, as `+OK`.
    pub fn status(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// An error: its first word says of which kind.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text);
    }

    /// A number.
    pub fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// Bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.number(b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Text for people.
    pub fn verbatim(&mut self, text: &str) {
        if self.version == RespVersion::Two {
            return self.bulk(text.as_bytes());
        }
        self.number(b'=', text.len() as i64 + 4);
        self.out.extend_from_slice(b"txt:");
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// Nothing, where there could have been bytes.
    #[inline]
    pub fn nil(&mut self) {
        self.out.extend_from_slice(match self.version {
            RespVersion::Two => b"$-1\r\n",
            RespVersion::Three => b"_\r\n",
        });
    }

    /// The beginning of an array.
    #[inline]
    pub fn array(&mut self, items: usize) {
        self.number(b'*', items as i64);
    }

    /// The beginning of a set; an array in RESP2.
    pub fn set(&mut self, items: usize) {
        match self.version {
            RespVersion::Two => self.array(items),
            RespVersion::Three => self.number(b'~', items as i64),
        }
    }

    /// The beginning of a map; an array of keys and values in RESP2.
    pub fn map(&mut self, entries: usize) {
        match self.version {
            RespVersion::Two => self.array(2 * entries),
            RespVersion::Three => self.number(b'%', entries as i64),
        }
    }
}

/// Appends a command, as clients send it.
pub fn write_resp_command<'w>(out: &mut Vec<u8>, words: impl ExactSizeIterator<Item = &'w [u8]>) {
    let mut reply = RespReply::new(out, RespVersion::Two);
    reply.array(words.len());
    words.for_each(|word| reply.bulk(word));
}
