//! Several processes on one address, for hosts that let a process open few files: `server.processes`.
//!
//! A parent starts them, restarts those that die, serves the admin port with their figures as one, and serves no call itself.
//! Each process binds the same address, and listens when it is warm and as the others are, so the kernel spreads connections over them; parent and process speak over the
//! process's input and output (`millpond_fleet`). Its invariant: a process ends when its parent does, however that ends.

mod admin;
mod folder;
mod member;
mod message;
mod parent;
mod settings;
mod supervisor;

pub use member::Member;
pub use supervisor::Supervisor;

use crate::config::Config;

/// The process that has the ordered stores of all. It is the one that starts first, and alone.
pub(crate) const STORES_AT: usize = 0;

/// The configuration of one of several processes: its own net threads, on processors that follow those of the process before.
pub(crate) fn share(mut config: Config, number: usize) -> Config {
    let threads = crate::ports::net_threads(&config.server);
    config.server.threads = threads;
    if let Some(turn) = (number * threads).checked_rem(config.server.cpus.len()) {
        config.server.cpus.rotate_left(turn);
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_follow_each_other_on_the_processors() {
        let mut config = Config::default();
        (config.server.processes, config.server.threads) = (3, 2);
        let cpus = |number: usize, cpus: &[usize]| {
            let mut config = config.clone();
            config.server.cpus = cpus.to_vec();
            share(config, number).server.cpus
        };
        assert_eq!(cpus(0, &[4, 5, 6, 7]), [4, 5, 6, 7]);
        assert_eq!(cpus(1, &[4, 5, 6, 7]), [6, 7, 4, 5]);
        assert_eq!(cpus(2, &[4, 5, 6, 7]), [4, 5, 6, 7]);
        assert_eq!(cpus(1, &[]), [0; 0]);
    }

    #[test]
    fn processes_share_the_processors_where_no_number_of_threads_is_said() {
        let mut config = Config::default();
        config.server.processes = 100_000;
        assert_eq!(share(config, 7).server.threads, 1);
    }
}
