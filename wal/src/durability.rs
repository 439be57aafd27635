//! What a write survives. Not how: that is `log`'s. Invariant: the words are those of the configuration and of answers.

use serde::Deserialize;

/// What a write has survived to when its caller learns of it. Ordered: a weaker mode compares as less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Nothing: there is no log.
    Memory,
    /// The death of the process: the write is in the operating system's hands.
    Logged,
    /// The loss of power: the disk has confirmed the write.
    #[default]
    Synced,
}

impl Durability {
    const ALL: [Durability; 3] = [Durability::Memory, Durability::Logged, Durability::Synced];

    /// "memory", "logged" or "synced".
    pub fn as_str(self) -> &'static str {
        match self {
            Durability::Memory => "memory",
            Durability::Logged => "logged",
            Durability::Synced => "synced",
        }
    }

    /// Whether there is a log.
    pub fn has_log(self) -> bool {
        match self {
            Durability::Logged | Durability::Synced => true,
            Durability::Memory => false,
        }
    }

    /// Whether each group of writes is synced before it is answered.
    pub fn syncs_each_group(self) -> bool {
        match self {
            Durability::Synced => true,
            Durability::Memory | Durability::Logged => false,
        }
    }

    /// The same back from its word.
    pub fn of(word: &str) -> Option<Durability> {
        Durability::ALL
            .into_iter()
            .find(|durability| durability.as_str() == word)
    }
}
