//! What became of connections, requests and answers: each counter is declared here, and nowhere else.
//! Its invariant: totals never fall, and what is of now returns to zero when all connections have closed.

use crate::quiet::Quiet;
use crate::timers::Overdue;
use std::sync::atomic::{AtomicU64, Ordering};

millpond_metrics::counters! {
    /// Totals since start, and the connections of now.
    #[derive(Debug, Default)]
    pub struct Counters {
        /// Of all ports together.
        METRICS {
            pub live: AtomicU64 = gauge("millpond_connections", "Connections served now.").info("connections_live"),
            pub refusing: AtomicU64 = gauge("millpond_connections_beside",
                "Connections that are not served: over the limit and being refused, or over and held until their peers have read it.")
                .label("state", "refused"),
            pub lingering: AtomicU64 = gauge("millpond_connections_beside",
                "Connections to which everything was said, held until their peers have read it.").label("state", "lingering"),
            pub accepted: AtomicU64 = counter("millpond_connections_accepted_total",
                "Connections accepted, refused ones included.").info("connections_accepted"),
            pub refused: AtomicU64 = counter("millpond_connections_refused_total",
                "Connections over the limit, or that found 4096 others waiting for the net thread with the fewest.").info("connections_refused"),
            pub malformed: AtomicU64 = counter("millpond_connections_malformed_total",
                "Connections closed for bytes that are no request, or only a part of one."),
            pub idle: AtomicU64 = counter("millpond_connections_overdue_total",
                "Connections closed because their peer let the server wait.").label("for", "request"),
            pub slow_requests: AtomicU64 = counter("millpond_connections_overdue_total",
                "The same, for the end of a request.").label("for", "rest_of_request"),
            pub slow_readers: AtomicU64 = counter("millpond_connections_overdue_total",
                "The same, for a peer that did not read its answers.").label("for", "reader"),
            pub overfull_readers: AtomicU64 = counter("millpond_connections_cut_total",
                "Connections closed because more waited for their peer than it may be owed, or most where too much waited for all.")
                .label("kind", "slow_reader"),
            pub write_buffers_cut: AtomicU64 = counter("millpond_connections_cut_total",
                "The same, for the one that most waited for.").label("kind", "write_buffers"),
            pub write_buffer_bytes: AtomicU64 = gauge("millpond_write_buffer_bytes",
                "Bytes of answers and of calls to peers that wait for their peers, and that lie in mailboxes."),
            pub panics: AtomicU64 = counter("millpond_connections_panicked_total",
                "Connections closed because serving them panicked: a fault of this server, told in the log."),
            pub partial_bytes: AtomicU64 = gauge("millpond_unfinished_bytes",
                "Bytes held of requests that have not come whole, beyond 8 KiB of each."),
            pub busy_poll_us: AtomicU64 = counter("millpond_busy_poll_us_total",
                "Microseconds that net threads polled their sockets instead of sleeping."),
            pub undelivered: AtomicU64 = counter("millpond_answers_undelivered_total",
                "Answers whose connection was gone."),
        }
        /// Of a TLS port.
        TLS_METRICS {
            pub handshakes: AtomicU64 = counter("millpond_tls_handshakes_total", "TLS handshakes done."),
            pub handshakes_failed: AtomicU64 = counter("millpond_tls_handshakes_failed_total",
                "TLS handshakes that began and were not done."),
        }
    }
    and {
        /// Limits the lines of the log that connections cause.
        pub quiet: Quiet,
        /// Requests refused, and their connections closed, because all partial ones together held too much.
        pub partial_refused: AtomicU64,
    }
}

impl Counters {
    pub(crate) fn count_overdue(&self, why: Overdue) {
        let counter = match why {
            Overdue::Idle => &self.idle,
            Overdue::Request => &self.slow_requests,
            Overdue::Write => &self.slow_readers,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
