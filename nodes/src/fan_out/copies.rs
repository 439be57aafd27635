//! The copies of a call and their keys. Its invariant: the keys of a copy never change, and the first copies have all keys of the
//! call, each once.

use super::CopyId;
use crate::replicas::Asked;
use crate::{Attempt, NodeIndex};

/// Keys sent to one node.
#[derive(Debug)]
pub(super) struct SentCopy {
    pub(super) node: NodeIndex,
    /// For the replicas, where nobody will report it.
    pub(super) asked: Asked,
    /// The version that it asks for.
    pub(super) at_version: Option<u64>,
    /// How often the call had begun anew when it was sent.
    pub(super) restarts: u32,
    pub(super) has_ended: bool,
    /// When it is hedged; second copies are not.
    pub(super) attempt: Option<Attempt>,
    /// The other replicas of its keys, where they all stood still when that was last looked for.
    pub(super) others: Vec<NodeIndex>,
    /// The slow copy that it was sent beside.
    pub(super) second_of: Option<CopyId>,
    /// Where its keys are.
    pub(super) range: (usize, usize),
}

#[derive(Debug, Default)]
pub(super) struct Copies {
    copies: Vec<SentCopy>,
    /// Of all copies, one after the other.
    keys: Vec<u64>,
    positions: Vec<u32>,
}

impl Copies {
    pub(super) fn push(&mut self, mut copy: SentCopy, keys: impl IntoIterator<Item = (u64, u32)>) -> CopyId {
        let start = self.keys.len();
        for (key, position) in keys {
            self.keys.push(key);
            self.positions.push(position);
        }
        copy.range = (start, self.keys.len());
        self.copies.push(copy);
        CopyId((self.copies.len() - 1) as u32)
    }

    pub(super) fn get(&self, id: CopyId) -> Option<&SentCopy> {
        self.copies.get(id.0 as usize)
    }

    pub(super) fn get_mut(&mut self, id: CopyId) -> Option<&mut SentCopy> {
        self.copies.get_mut(id.0 as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SentCopy> {
        self.copies.iter()
    }

    /// Of all that there are now.
    pub(super) fn ids(&self) -> impl Iterator<Item = CopyId> + use<> {
        (0..self.copies.len() as u32).map(CopyId)
    }

    pub(super) fn keys(&self, id: CopyId) -> &[u64] {
        let (start, end) = self.get(id).map_or((0, 0), |copy| copy.range);
        self.keys.get(start..end).unwrap_or_default()
    }

    pub(super) fn positions(&self, id: CopyId) -> &[u32] {
        let (start, end) = self.get(id).map_or((0, 0), |copy| copy.range);
        self.positions.get(start..end).unwrap_or_default()
    }

    /// Keys and positions of a copy.
    pub(super) fn pairs(&self, id: CopyId) -> impl Iterator<Item = (u64, u32)> + '_ {
        let positions = self.positions(id).iter().copied();
        self.keys(id).iter().copied().zip(positions)
    }

    /// Keys and positions of the whole call, of so many keys.
    pub(super) fn first(&self, count: usize) -> impl Iterator<Item = (u64, u32)> + '_ {
        let all = self.keys.iter().zip(&self.positions).take(count);
        all.map(|(key, position)| (*key, *position))
    }

    /// Whether no copy is under way that was sent beside `first`.
    pub(super) fn seconds_have_ended(&self, first: CopyId) -> bool {
        let mut seconds = self.copies.iter().filter(|copy| copy.second_of == Some(first));
        seconds.all(|copy| copy.has_ended)
    }
}
