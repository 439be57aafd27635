//! Starts a new epoch, or another history, in a log: who writes it from here on.
//!
//! Whether that is allowed is the caller's decision. Invariant: a record lies in a segment whose header says the epoch that it was written
//! in.

use std::sync::Arc;

use crate::error::Error;
use crate::history::History;
use crate::log::{Log, write_all};
use crate::record::SegmentHeader;

impl Log {
    /// Writes from here on in that history: in a new segment, where this one has records. `number` is what the next record begins with.
    ///
    /// # Errors
    /// What failed: the log goes on as it was, or is read-only.
    pub fn begin_epoch(&mut self, history: History, number: u64) -> Result<(), Arc<Error>> {
        if let Some(error) = self.read_only() {
            return Err(Arc::clone(error));
        }
        if self.history() == Some(history) && self.segment.has_history {
            return Ok(());
        }
        if !self.segment.has_records() {
            return self.write_header(history, number);
        }
        let before = self.history.replace(history);
        let rolled = self.roll(number);
        if rolled.is_err() {
            self.history = before;
        }
        rolled
    }

    /// Of a segment without records. Should it be torn, the next start takes the segment for one that was never begun.
    fn write_header(&mut self, history: History, number: u64) -> Result<(), Arc<Error>> {
        debug_assert!(
            !self.pace.is_behind(),
            "no sync goes on: there is nothing to sync"
        );
        let header = SegmentHeader {
            first_sequence: self.segment.first_sequence,
            number,
            marker: self.segment.marker,
            history: Some(history),
            version: self.format.version,
        };
        let bytes = header.encode(self.format);
        let written = write_all(&*self.segment.file, &bytes, 0).and_then(|()| self.segment.file.sync());
        if let Err(source) = written {
            return Err(self.turn_read_only(format!("cannot write the header of the segment: {source}")));
        }
        let segment = &mut self.segment;
        segment.header_bytes = bytes.len() as u64;
        (segment.length, segment.reserved) = (segment.header_bytes, segment.header_bytes);
        segment.has_history = true;
        self.history = Some(history);
        Ok(())
    }
}
