//! A thread for a call that waits: no net thread may.
//! Its invariant: a call for which there is no thread is answered so.

use millpond_wire_schema::{Code, Status};

/// Runs `wait`, which answers its call. Where there is no thread for it the call goes with the closure, and is answered as one that failed.
pub(crate) fn run(name: &'static str, wait: impl FnOnce() + Send + 'static) -> Result<(), Status> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    match thread.spawn(wait) {
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::warn!(%error, "no thread for {name}");
            Err(Status::new(
                Code::Internal,
                "the system has no thread for it; try again later",
            ))
        }
    }
}
