//! Which behaviour a server has, as the command line tells it.
//!
//! It only says; what is done stands in `behaviour`. Its invariant: a server has exactly one.

use crate::arguments::Arguments;
use crate::delay::Delay;
use crate::error::Error;
use crate::quantity::{duration_above_zero, ns, or_refuse};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A pause of the whole server that comes again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stall {
    /// From the beginning of one to the beginning of the next.
    pub(crate) every_ns: u64,
    /// How long each lasts.
    pub(crate) length_ns: u64,
}

impl FromStr for Stall {
    type Err = String;

    fn from_str(text: &str) -> Result<Stall, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let stall = match parts[..] {
            ["every", every, length] => Some(Stall {
                every_ns: ns(duration_above_zero(every)?),
                length_ns: ns(duration_above_zero(length)?),
            }),
            _ => None,
        };
        let expected = "every:PERIOD:LENGTH with the length below the period, such as every:10s:1s";
        or_refuse(
            stall.filter(|stall| stall.length_ns < stall.every_ns),
            text,
            expected,
        )
    }
}

/// What a server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Reads and never answers.
    Hang,
    /// Resets the connection once it has read a request.
    Reset,
    /// Answers other bytes, as many as were asked with.
    Garbage,
    /// Answers each request twice.
    Twice,
    /// Answers the second of two requests before the first.
    Reorder,
    /// Answers half a request and closes.
    Short,
    /// Closes the connection after so many right answers.
    CloseAfter(u64),
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let fault = match text {
            "hang" => Some(Fault::Hang),
            "reset" => Some(Fault::Reset),
            "garbage" => Some(Fault::Garbage),
            "twice" => Some(Fault::Twice),
            "reorder" => Some(Fault::Reorder),
            "short" => Some(Fault::Short),
            other => {
                let answers = other
                    .strip_prefix("close-after:")
                    .and_then(|answers| answers.parse().ok());
                answers.map(Fault::CloseAfter)
            }
        };
        let expected = "a fault: hang, reset, garbage, twice, reorder, short or close-after:N";
        or_refuse(fault, text, expected)
    }
}

/// What a server does with what it reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Plain,
    AcceptPause,
    Delay(Delay),
    Stall(Stall),
    Rate(f64),
    Work(Duration),
    Sleep(Duration),
    Lock { hold: Duration, asleep: bool },
    Disk(PathBuf),
    Fault(Fault),
}

impl Kind {
    /// Reads it from the command line, or says why the command line does not hold together.
    pub(crate) fn of(arguments: &Arguments) -> Result<Kind, Error> {
        let lock = |hold| Kind::Lock {
            hold,
            asleep: arguments.lock_sleep,
        };
        let named = [
            arguments.delay.map(Kind::Delay),
            arguments.stall.map(Kind::Stall),
            arguments.rate.map(Kind::Rate),
            arguments.work.map(Kind::Work),
            arguments.sleep.map(Kind::Sleep),
            arguments.lock.map(lock),
            arguments.disk.clone().map(Kind::Disk),
            arguments.accept_pause.then_some(Kind::AcceptPause),
            arguments.fault.map(Kind::Fault),
        ];
        // The command line takes one of them.
        let kind = named.into_iter().flatten().next().unwrap_or(Kind::Plain);
        let has_one_thread = matches!(
            kind,
            Kind::Rate(_) | Kind::Sleep(_) | Kind::Lock { .. } | Kind::Disk(_)
        );
        if arguments.threads > 1 && has_one_thread {
            return Err(Error::Usage(
                "--threads is for plain echo, --delay, --stall, --work, --accept-pause and --fault; --rate has one queue, and \
                 --sleep, --lock and --disk take --workers"
                    .to_owned(),
            ));
        }
        Ok(kind)
    }

    /// Whether it looks at single requests; what does not echoes bytes as they come.
    pub(crate) fn has_requests(&self) -> bool {
        !matches!(self, Kind::Plain | Kind::AcceptPause | Kind::Stall(_))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_behaviour_has_its_flag() {
        let check = |words: &str, expected: Kind| {
            let arguments = Arguments::from_words(words.split_whitespace()).unwrap();
            assert_eq!(Kind::of(&arguments).unwrap(), expected, "{words}");
        };
        let lock = |asleep| Kind::Lock {
            hold: Duration::from_micros(200),
            asleep,
        };
        check("", Kind::Plain);
        check("--threads 2", Kind::Plain);
        check("--delay constant:1us", Kind::Delay(Delay::Constant { ns: 1_000 }));
        check("--rate 5000", Kind::Rate(5000.0));
        check("--work 100us", Kind::Work(Duration::from_micros(100)));
        check("--sleep 10ms --workers 8", Kind::Sleep(Duration::from_millis(10)));
        check("--lock 200us", lock(false));
        check("--lock 200us --lock-sleep", lock(true));
        check("--disk log", Kind::Disk("log".into()));
        check("--accept-pause", Kind::AcceptPause);
        check("--fault close-after:3", Kind::Fault(Fault::CloseAfter(3)));
        let stall = Stall {
            every_ns: 10_000_000_000,
            length_ns: 1_000_000_000,
        };
        check("--stall every:10s:1s", Kind::Stall(stall));
    }

    #[test]
    fn a_command_line_that_does_not_hold_together_is_refused() {
        for words in [
            "--rate 5 --work 1ms",
            "--rate 5 --threads 2",
            "--sleep 1ms --threads 2",
            "--truth out.json",
            "--lock-sleep",
            "--stall every:1s:1s",
            "--stall 10s:1s",
            "--fault close-after:",
            "--fault sulk",
            "--request-bytes 0",
            "--workers 0",
            "--queue-max 0",
        ] {
            let kind = Arguments::from_words(words.split_whitespace()).and_then(|read| Kind::of(&read));
            assert_eq!(kind.unwrap_err().exit_code(), 2, "{words}");
        }
    }
}
