//! What becomes of a call's answer in these tests.

use millpond_calls::{Answer, Later, Sink};
use millpond_wire_payload::Encoding;
use millpond_wire_schema::Status;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::SyncSender;

/// Takes one answer.
pub struct Taker {
    bytes: Vec<u8>,
    to: SyncSender<String>,
}

impl Taker {
    /// It goes there: JSON, or the error in words behind "error: ".
    pub fn to(to: SyncSender<String>) -> Taker {
        let bytes = Vec::new();
        Taker { bytes, to }
    }
}

impl Answer for Taker {
    fn begin(&mut self) -> Option<(&mut Vec<u8>, Encoding)> {
        Some((&mut self.bytes, Encoding::Json))
    }

    fn finish(&mut self) {
        let text = String::from_utf8(std::mem::take(&mut self.bytes)).unwrap();
        self.to.send(text).unwrap();
    }

    fn error(&mut self, status: &Status) {
        self.to.send(format!("error: {status}")).unwrap();
    }

    fn body(&mut self, _: u16, _: &str, _: &[u8]) {}
}

impl Sink for Taker {
    fn later(&mut self) -> Box<dyn Later> {
        Box::new(Taker::to(self.to.clone()))
    }
}

impl Later for Taker {
    fn gone(&self) -> Arc<AtomicBool> {
        Arc::default()
    }
}
