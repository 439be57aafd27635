//! Which device an instance runs on: the one that has fewest of the model's instances.
//!
//! It knows no device. Its invariant: a device counts the instances that are there now, so that one which is built again in the place
//! of another comes to the same device.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The devices of one model.
pub(crate) struct Spread {
    /// Their numbers; nothing for one that has none.
    devices: Vec<Option<u16>>,
    /// Instances that each has now.
    held: Mutex<Vec<usize>>,
}

/// An instance's place on a device, until it is dropped.
pub(crate) struct Seat {
    spread: Arc<Spread>,
    /// Which of the model's devices, counted from 0.
    pub(crate) at: usize,
}

impl Spread {
    pub(crate) fn over(devices: Vec<Option<u16>>) -> Arc<Spread> {
        let held = Mutex::new(vec![0; devices.len()]);
        Arc::new(Spread { devices, held })
    }

    pub(crate) fn len(&self) -> usize {
        self.devices.len()
    }

    /// A place on the device that has fewest instances, the first of several.
    pub(crate) fn seat(self: &Arc<Spread>) -> Seat {
        let mut held = self.held();
        let at = (0..held.len()).min_by_key(|at| held[*at]).unwrap_or(0);
        if let Some(held) = held.get_mut(at) {
            *held += 1;
        }
        let spread = Arc::clone(self);
        Seat { spread, at }
    }

    fn held(&self) -> MutexGuard<'_, Vec<usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// The device's number.
    pub(crate) fn device(&self) -> Option<u16> {
        self.spread.devices.get(self.at).copied().flatten()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(held) = self.spread.held().get_mut(self.at) {
            *held = held.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_spread_evenly_and_come_back_to_their_device() {
        let spread = Spread::over(vec![Some(3), Some(1)]);
        let mut seats: Vec<Seat> = (0..4).map(|_| spread.seat()).collect();
        let devices = |seats: &[Seat]| seats.iter().map(Seat::device).collect::<Vec<_>>();
        assert_eq!(devices(&seats), [Some(3), Some(1), Some(3), Some(1)]);
        drop(seats.remove(1));
        seats.push(spread.seat());
        assert_eq!(devices(&seats), [Some(3), Some(3), Some(1), Some(1)]);
    }

    #[test]
    fn without_devices_there_is_one_place() {
        let spread = Spread::over(vec![None]);
        let seats = [spread.seat(), spread.seat()];
        assert_eq!((spread.len(), seats[1].at, seats[1].device()), (1, 0, None));
    }
}
