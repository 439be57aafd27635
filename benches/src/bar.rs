//! Bars that are measured together.

use crate::report::Report;
use crate::setup::Setup;
pub(crate) use millpond_press_verdict::{Bar, Op};

/// Bars that are measured together.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) bars: &'static [Bar<'static>],
    pub(crate) measure: fn(&Setup, &mut Report) -> anyhow::Result<()>,
}
