//! How a campaign is run.

use std::path::PathBuf;
use std::time::Duration;

/// When a campaign ends.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    /// Rounds are begun for so long.
    Time(Duration),
    /// So many rounds.
    Rounds(u64),
    /// So many kills, in rounds of nothing else.
    Kills(u64),
}

/// The settings of a campaign.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The binary.
    pub millpond: PathBuf,
    /// From which everything is planned.
    pub seed: u64,
    /// When it ends.
    pub length: Length,
    /// Where folders of rounds with findings are kept.
    pub keep: PathBuf,
    /// The times that something may take are so many times as long: for machines that are busy with other things.
    pub generosity: u32,
    /// Each round's plan is said when it begins.
    pub is_verbose: bool,
    /// A tmpfs can be mounted: this process is alone in its namespace of mounts.
    pub can_mount: bool,
    /// strace can make system calls of a server fail.
    pub can_trace: bool,
}
