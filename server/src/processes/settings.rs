//! What `*tune` changed since the start, for processes that start later.
//!
//! Its invariant: told to a process that has just started, it leaves that one with the settings of the others. So what is
//! remembered is what each setting came to, the list of addresses whole, and not the commands that led there: those may
//! depend on each other, and on what the configuration said.

use crate::tune::{Asked, Change, Setting};
use millpond_calls::access::AllowList;
use std::mem::discriminant;

/// The last of each setting that was changed.
#[derive(Debug)]
pub(super) struct Settings {
    tuned: Vec<Setting>,
    /// The list of the configuration, which the first change of it begins from.
    configured: AllowList,
}

impl Settings {
    /// Nothing is changed yet.
    pub(super) fn new(configured: AllowList) -> Settings {
        Settings {
            tuned: Vec::new(),
            configured,
        }
    }

    /// Remembers a change in the place of what it replaces, and returns what the setting came to.
    pub(super) fn change(&mut self, asked: &Asked) -> Result<Setting, String> {
        let setting = match &asked.change {
            Change::To(setting) => setting.clone(),
            Change::List(change) => Setting::AllowList(self.list().changed(*change, asked.keeps)?),
        };
        self.tuned
            .retain(|old| discriminant(old) != discriminant(&setting));
        self.tuned.push(setting.clone());
        Ok(setting)
    }

    fn list(&self) -> &AllowList {
        let list = self.tuned.iter().find_map(|setting| match setting {
            Setting::AllowList(list) => Some(list),
            _ => None,
        });
        list.unwrap_or(&self.configured)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.tuned.iter()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Level;
    use crate::tune::Asked;
    use millpond_calls::access::Addresses;

    const LIST: &str = "server.security.ip.whiteList.";

    fn list(texts: &[&str]) -> AllowList {
        AllowList::of(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    /// Makes the changes at a running process and here, and holds what a process that starts then takes over against it.
    fn check(configured: &[&str], changes: &[(&str, &str)], expected: (bool, &str)) {
        let old = Addresses::new(list(configured));
        let mut settings = Settings::new(list(configured));
        for (command, value) in changes {
            let asked = Asked::read(&format!("{LIST}{command}"), value, None).unwrap();
            let Change::List(of_list) = asked.change else {
                panic!("{command} changes the list")
            };
            old.change(of_list, None).unwrap();
            settings.change(&asked).unwrap();
        }
        let new = Addresses::new(list(configured));
        assert_eq!(settings.iter().count(), 1, "one setting, told at once");
        for setting in settings.iter() {
            let Setting::AllowList(list) = setting else {
                panic!("{setting:?}")
            };
            new.replace(list.clone());
        }
        assert_eq!((new.is_on(), new.shown().as_str()), expected);
        assert_eq!((old.is_on(), old.shown().as_str()), expected);
    }

    #[test]
    fn a_process_that_starts_later_has_the_list_of_the_others() {
        check(
            &[],
            &[
                ("addIP", "10.0.0.1"),
                ("enable", "true"),
                ("addIP", "10.0.0.2"),
                ("removeIP", "10.0.0.1"),
            ],
            (true, "[10.0.0.2]"),
        );
        check(
            &["10.0.0.0/8"],
            &[
                ("enable", "false"),
                ("removeIP", "10.0.0.0/8"),
                ("addIP", "192.168.0.0/16"),
                ("enable", "true"),
            ],
            (true, "[192.168.0.0/16]"),
        );
        check(
            &["10.0.0.0/8"],
            &[("addIP", "10.0.0.0/8")],
            (true, "[10.0.0.0/8]"),
        );
    }

    #[test]
    fn the_last_word_on_each_setting_stays() {
        let mut settings = Settings::new(AllowList::default());
        for (key, value) in [
            ("server.log.level", "debug"),
            ("server.slow.log", "7"),
            ("server.stat", "off"),
            ("server.log.level", "error"),
        ] {
            settings.change(&Asked::read(key, value, None).unwrap()).unwrap();
        }
        let left: Vec<&Setting> = settings.iter().collect();
        assert_eq!(
            left,
            [
                &Setting::SlowLog(7),
                &Setting::Stat(false),
                &Setting::LogLevel(Level::Error)
            ]
        );
    }

    #[test]
    fn what_cannot_be_changes_nothing() {
        let mut settings = Settings::new(AllowList::default());
        let on = Asked::read(&format!("{LIST}enable"), "true", None).unwrap();
        let problem = settings.change(&on).unwrap_err();
        let told = on.refusal(&problem);
        assert!(
            told.contains("whiteList.enable") && told.contains("the list is empty"),
            "{told}"
        );
        assert_eq!(settings.iter().count(), 0);
    }
}
