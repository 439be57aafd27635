//! A worker sleeps for each request.
//!
//! Its invariant: it uses no processor while it does.

use super::pooled::Task;
use std::io;
use std::thread;
use std::time::Duration;

pub(crate) struct Sleep(pub(crate) Duration);

impl Task for Sleep {
    fn work(&self, _request: &[u8]) -> io::Result<()> {
        thread::sleep(self.0);
        Ok(())
    }
}
