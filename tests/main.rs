//! Black-box tests: the real binary, real sockets, real files. A folder an area, one behaviour a file; all of them are one binary,
//! because each more would link the whole server again.
//! No test here asserts a time; waits are bounded only so that a hang fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

mod harness;

mod commands;

mod serving {
    mod alike;
    pub(crate) mod arrivals;
    mod bad_input;
    mod batches;
    mod busy_poll;
    mod bytes;
    mod call;
    mod clock_steps;
    mod configuration;
    mod drain;
    mod duplex;
    pub(crate) mod failing_disk;
    mod fold_commands;
    mod hidden_folds;
    mod infer;
    mod killed_folds;
    mod logging;
    mod lookups;
    mod methods;
    mod metrics;
    mod ordered;
    mod ordered_acknowledged;
    mod ordered_copies;
    mod ordered_eviction;
    mod ordered_follower_copies;
    pub(crate) mod ordered_followers;
    mod ordered_lists;
    mod ordered_writes;
    mod plugin;
    pub(crate) mod rank;
    mod redis;
    pub(crate) mod resp;
    mod resp_batches;
    mod resp_connections;
    mod resp_ranges;
    mod resp_scans;
    mod resp_stores;
    mod run;
    mod scans;
    mod stopping;
    mod switches;
    mod upserts;
    mod upserts_of_bytes;
    mod version_commands;
    pub(crate) mod versions;
    mod versions_held;
}

mod overload {
    mod limits;
    mod slow_reader;
}

mod access {
    mod callers;
    mod tls;
}

mod nodes {
    mod bad_input;
    mod bytes;
    mod catching_up;
    mod changing;
    mod client;
    mod clock_steps;
    pub(crate) mod cluster;
    mod etcd;
    mod failing;
    mod folding;
    mod lookups;
    mod moving;
    mod texts;
    mod tls;
    mod token;
    mod upserts;
}

mod fleet {
    mod arrivals;
    mod processes;
    mod resp;
    mod stores;
    mod stores_load;
    mod versions;
}

mod tables {
    mod building;
    mod fetching;
}

mod press {
    mod processes;
    pub(crate) mod recipes;
    mod run;
}
