//! Goes on in other segments, which somebody has put into the log's folder in place of those that it wrote.
//!
//! Invariant: whoever watches whether the log is read-only goes on watching.

use super::Log;
use crate::error::Error;
use crate::recover::Recovered;

impl Log {
    /// Goes on behind what was recovered of its folder, as if it had been opened there; what it wrote before is not its own any more.
    ///
    /// # Errors
    /// As [`Log::open`]. The log is unchanged then, and still writes to a segment that the folder no longer has: its keeper gives it up.
    pub fn open_again(&mut self, recovered: &Recovered) -> Result<(), Error> {
        let opened = Log::open(
            self.format,
            self.disk.clone(),
            &self.dir,
            self.durability,
            self.segment_bytes_max,
            recovered,
        )?;
        self.wait_for_sync();
        let before = std::mem::replace(self, opened);
        (self.read_only, self.pace, self.syncing) = (before.read_only, before.pace, before.syncing);
        // What it had not synced yet is removed.
        self.pace.synced();
        Ok(())
    }
}
