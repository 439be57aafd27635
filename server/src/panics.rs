//! What a panic does to a program that serves: it is logged, and the process ends.
//!
//! Panics that end a connection, a model's run or a caller's callback alone are not heard of here (`millpond_threads::contain`). Its
//! invariant: the process ends, whatever the panic has left locked and whoever reads no log.

use crate::LogHandle;
use crate::log::say;
use std::time::{Duration, Instant};

/// What the last words may take: first on standard error, then in the log.
const LOG_MAX: Duration = Duration::from_secs(1);
/// When the process ends at the latest: the words above may wait for what the panicking thread holds.
const WORDS_MAX: Duration = Duration::from_secs(3);

/// Ends this process by SIGABRT with every panic that is not contained. A net thread, an acceptor, an instance, the log's thread
/// or the thread of a store that died alone would leave a server that neither serves nor stops; whoever supervises the process
/// starts it again. `millpond serve` calls this. Other programs that hold a [`Server`](crate::Server) may: without it such a thread
/// ends alone, the server says that it is not ready, and its stop is bounded all the same.
pub fn abort_on_panic(log: LogHandle) {
    millpond_threads::abort_on_panic(move |thread, panic| {
        let last = std::thread::Builder::new().name("last-words".into()).spawn(|| {
            std::thread::sleep(WORDS_MAX);
            std::process::abort();
        });
        say(&format!(
            "millpond: thread {thread} panicked: {panic}; the process ends"
        ));
        if last.is_ok() {
            tracing::error!(thread, %panic, "a thread panicked; the process ends");
            log.flush_by(Instant::now() + LOG_MAX);
        }
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Config;
    use crate::{Logging, ports};
    use millpond_calls::{Call, Reply, Service};
    use millpond_net::Listener;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::Path;
    use std::process::Command;

    /// The log's file, in the process of [`a_program_with_two_panics`]: a hook is the process's.
    const LOG: &str = "MILLPOND_SERVER_TEST_LOG";

    #[derive(Clone)]
    struct Panicking;

    impl Service for Panicking {
        fn call(&self, _: &Call<'_>, _: Reply<'_>) {
            panic!("in a call")
        }
    }

    #[test]
    fn a_program_with_two_panics() {
        let Some(log) = std::env::var_os(LOG) else { return };
        let mut config = Config::default();
        config.log.file = Some(log.into());
        let logging = Logging::start(&config.log).unwrap();
        abort_on_panic(logging.handle());
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), "server.listen").unwrap();
        let port = ports::admin_port(&config.admin);
        let transport = port.start(listener, "net", Panicking).unwrap();
        let mut stream = TcpStream::connect(transport.local_addr()).unwrap();
        stream
            .write_all(b"GET /service/any HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        // The end of it, by which the panic was contained.
        let _ = stream.read_to_end(&mut Vec::new());
        tracing::info!("lives on");
        let _ = std::thread::spawn(|| panic!("elsewhere")).join();
        tracing::info!("after the end");
    }

    #[test]
    fn one_panic_ends_a_connection_and_another_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args([
            "panics::tests::a_program_with_two_panics",
            "--exact",
            "--nocapture",
        ]);
        let done = program.env(LOG, &log).output().unwrap();
        let (said, log) = (String::from_utf8_lossy(&done.stderr), read(&log));
        assert_eq!(
            done.status.signal(),
            Some(rustix::process::Signal::ABORT.as_raw()),
            "{said}\n{log}"
        );
        let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
        assert_eq!(
            (lines("in a call"), lines("elsewhere"), log.lines().count()),
            (1, 1, 3),
            "{log}"
        );
        assert!(
            log.contains("connection closed: serving it panicked") && log.contains("lives on"),
            "{log}"
        );
        assert!(
            said.contains("panicked: elsewhere") && !said.contains("in a call"),
            "{said}"
        );
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }
}
