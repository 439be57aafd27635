//! The moment of a kill -9.

use crate::fresh::LOG;
use crate::mixed::FOLDERS;
use crate::plan::Moment;
use crate::scene::Scene;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A moment that does not come is not waited for any longer.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Waits until the moment has come.
pub fn await_moment(scene: &Scene<'_>, moment: Moment) {
    let until = Instant::now() + WAIT_MAX;
    let counted = match moment {
        Moment::FreshGrowth(_) => &scene.upserts,
        Moment::MixedGrowth(_) => &scene.tally.mixed,
        _ => &scene.puts,
    };
    let before = counted.load(Ordering::SeqCst);
    let has_come = |count| counted.load(Ordering::SeqCst) >= before + count;
    let wait = |done: &dyn Fn() -> bool| {
        while !done() && Instant::now() < until {
            std::thread::yield_now();
        }
    };
    match moment {
        Moment::After(time) | Moment::Starting(time) => std::thread::sleep(time),
        Moment::Puts(count) => wait(&|| has_come(count)),
        Moment::Growth(count) | Moment::FreshGrowth(count) | Moment::MixedGrowth(count) => {
            wait(&|| has_come(count));
            let log = match moment {
                Moment::FreshGrowth(_) => LOG,
                Moment::MixedGrowth(count) => FOLDERS[(count % 2) as usize],
                _ => "store/events",
            };
            let folder = scene.folder.join(log);
            let length = log_bytes(&folder);
            wait(&|| log_bytes(&folder) != length);
        }
    }
}

/// Bytes of all segments.
fn log_bytes(folder: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(folder) else {
        return 0;
    };
    files
        .flatten()
        .filter_map(|file| Some(file.metadata().ok()?.len()))
        .sum()
}
