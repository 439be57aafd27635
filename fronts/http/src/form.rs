//! How an answer is written as HTTP's.
//! Its invariant: what ends its connection says so.

use millpond_fronts_answer as answer;
use millpond_wire_frame::{Encoding, HttpAnswer, write_http};
use millpond_wire_payload::Encoder;
use millpond_wire_schema::{Code, Status};

/// An HTTP answer: 200 and JSON, unless it is an error or the service says otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form(pub(crate) HttpAnswer<'static>);

/// Of an answer after which nothing is served.
pub(crate) const LAST: Form = Form(HttpAnswer {
    status: 200,
    content_type: "application/json",
    keep_alive: false,
    head_only: false,
    allow_origin: None,
    allow: None,
});

impl Form {
    /// Answers an error with that status, and with the verbs that are served there.
    pub(crate) fn error_as(
        self,
        out: &mut Vec<u8>,
        status: &Status,
        http_status: u16,
        allow: Option<&'static str>,
    ) {
        let answer = HttpAnswer {
            status: http_status,
            keep_alive: !answer::Form::is_last(&self, Some(status)),
            allow,
            ..self.0
        };
        let mut body = Vec::with_capacity(256);
        status.encode(&mut Encoder::new(&mut body, Encoding::Json, false));
        write_http(out, answer, &body);
    }
}

impl answer::Form for Form {
    /// The body, which has its length before it.
    type Open = Vec<u8>;

    fn begin<'o>(self, _: &'o mut Vec<u8>, body: &'o mut Vec<u8>) -> Option<(&'o mut Vec<u8>, Encoding)> {
        *body = Vec::with_capacity(256);
        Some((body, Encoding::Json))
    }

    fn finish(self, out: &mut Vec<u8>, body: &mut Vec<u8>) {
        write_http(out, self.0, body);
    }

    fn error(self, out: &mut Vec<u8>, status: &Status) {
        self.error_as(out, status, status.code.http_status(), None);
    }

    fn body(self, out: &mut Vec<u8>, status: u16, content_type: &str, bytes: &[u8]) {
        let answer = HttpAnswer {
            status,
            content_type,
            ..self.0
        };
        write_http(out, answer, bytes);
    }

    /// A server that stops says so, and HTTP can say that no more is served.
    fn is_last(&self, error: Option<&Status>) -> bool {
        !self.0.keep_alive || error.is_some_and(|error| error.code == Code::Stopping)
    }
}
