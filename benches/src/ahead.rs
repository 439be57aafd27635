//! A load that goes before what else the machine runs.
//!
//! With 400,000 sockets in its tables, whoever reads them takes long: an agent of the machine that this was written on looked every
//! three seconds and held a core for 0.3 to 0.4 s each time. A server would be given a priority there, and so it is here. Its
//! invariant: the priority is the whole group's (Linux' sched(7), autogroup), server and press alike, and ends with this.

/// The group's file, which takes a nice value.
const FILE: &str = "/proc/self/autogroup";
/// The highest priority.
const NICE: &str = "-20";

/// The priority, until it is dropped.
pub(crate) struct Ahead {
    /// The group's own; nothing where it could not be raised.
    before: Option<String>,
}

impl Ahead {
    pub(crate) fn of_others() -> Ahead {
        // Such as `/autogroup-146 nice 0`.
        let group = std::fs::read_to_string(FILE).unwrap_or_default();
        let before = group.split_ascii_whitespace().last().map(str::to_owned);
        Ahead {
            before: before.filter(|_| std::fs::write(FILE, NICE).is_ok()),
        }
    }

    /// What a reader of the figures has to know.
    pub(crate) fn describe(&self) -> &'static str {
        match self.before.is_some() {
            true => "server and press go before what else the machine runs (autogroup, nice -20)",
            false => {
                "server and press have no priority over what else the machine runs: no autogroups, or no right to it"
            }
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // It fails only when asked too often, and then the process ends soon anyway.
            let _ = std::fs::write(FILE, before);
        }
    }
}
