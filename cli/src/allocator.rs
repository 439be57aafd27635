//! Which allocator the process has: the system's, or the one that the build was told to take (`--features mimalloc`, or
//! `jemalloc`).
//!
//! Nothing else depends on it. Its invariant: what [`NAME`] says is what allocates.

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(all(feature = "jemalloc", not(feature = "mimalloc")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The name, and what `millpond --version` says beside it.
macro_rules! named {
    ($name:literal) => {
        /// The allocator's name.
        pub(crate) const NAME: &str = $name;
        /// The version of this binary, and its allocator.
        pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (allocator: ", $name, ")");
    };
}

#[cfg(feature = "mimalloc")]
named!("mimalloc");
#[cfg(all(feature = "jemalloc", not(feature = "mimalloc")))]
named!("jemalloc");
#[cfg(not(any(feature = "mimalloc", feature = "jemalloc")))]
named!("system");

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::process::Command;

    /// Each allocator tells of itself when its own variable asks for it, and no other does: this test program, which has the
    /// binary's allocator, is asked by both names.
    #[test]
    fn the_allocator_is_the_one_that_is_named() {
        let program = std::env::current_exe().unwrap();
        let says = |variable: &str, value: &str, words: &str| {
            let output = Command::new(&program)
                .arg("--list")
                .env(variable, value)
                .output()
                .unwrap();
            assert!(output.status.success());
            String::from_utf8_lossy(&output.stderr).contains(words)
        };
        let mimalloc = says("MIMALLOC_VERBOSE", "1", "mimalloc");
        let jemalloc = says("_RJEM_MALLOC_CONF", "stats_print:true", "jemalloc statistics");
        let found = match (mimalloc, jemalloc) {
            (true, false) => "mimalloc",
            (false, true) => "jemalloc",
            (false, false) => "system",
            (true, true) => "both",
        };
        assert_eq!(found, NAME);
        assert!(VERSION.contains(NAME) && VERSION.starts_with(env!("CARGO_PKG_VERSION")));
    }
}
