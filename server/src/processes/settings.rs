//! What `*tune` changed since the start, for processes that start later.
//!
//! Its invariant: told in its order to a process that has just started, it leaves that one with the settings of the others.

use std::collections::VecDeque;

/// Settings that are remembered; the oldest gives way.
const SETTINGS_MAX: usize = 1024;
/// Keys whose values add to each other, so that each value is a setting of its own.
const LISTS: [&str; 2] = [
    "server.security.ip.whiteList.addIP",
    "server.security.ip.whiteList.removeIP",
];

/// Keys and values, oldest first.
#[derive(Debug, Default)]
pub(super) struct Settings(VecDeque<(String, String)>);

impl Settings {
    /// Remembers a change, and forgets what it replaces.
    pub(super) fn note(&mut self, key: &str, value: &str) {
        let of_list = |key: &str| LISTS.contains(&key);
        self.0.retain(|(old, old_value)| match of_list(key) {
            // What is added again need not have been removed.
            true => !(of_list(old) && old_value == value),
            false => old != key,
        });
        if self.0.len() >= SETTINGS_MAX {
            tracing::warn!(
                settings = SETTINGS_MAX,
                "more settings were tuned than are remembered for processes that start again"
            );
            self.0.pop_front();
        }
        self.0.push_back((key.to_owned(), value.to_owned()));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(String, String)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_on_each_setting_stays_in_its_order() {
        let mut settings = Settings::default();
        let (add, remove) = (LISTS[0], LISTS[1]);
        for (key, value) in [
            ("server.log.level", "debug"),
            (add, "10.0.0.0/8"),
            (add, "10.1.0.0/16"),
            ("server.log.level", "error"),
            (remove, "10.0.0.0/8"),
        ] {
            settings.note(key, value);
        }
        let left: Vec<(&str, &str)> = settings
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            left,
            [
                (add, "10.1.0.0/16"),
                ("server.log.level", "error"),
                (remove, "10.0.0.0/8"),
            ]
        );
    }

    #[test]
    fn settings_are_bounded() {
        let mut settings = Settings::default();
        (0..2 * SETTINGS_MAX).for_each(|at| settings.note(LISTS[0], &at.to_string()));
        assert_eq!(settings.iter().count(), SETTINGS_MAX);
    }
}
