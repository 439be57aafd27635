//! A queue of bytes: in at the back, out at the front.
//!
//! Its invariant: bytes leave in the order in which they came, and what has left takes room only until the next push.

/// Bytes that wait.
#[derive(Default)]
pub(crate) struct Bytes {
    bytes: Vec<u8>,
    /// How many of them have left.
    gone: usize,
}

/// An empty queue gives its memory back beyond this.
const CAPACITY_KEPT_MAX: usize = 256 * 1024;

impl Bytes {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.gone
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.gone..]
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        // Moving is paid for by at least as many bytes having left.
        if self.gone > self.len() {
            self.bytes.drain(..self.gone);
            self.gone = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Lets the first `count` go.
    pub(crate) fn skip(&mut self, count: usize) {
        self.gone += count.min(self.len());
        if self.is_empty() {
            self.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(CAPACITY_KEPT_MAX);
        self.gone = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_their_order() {
        let mut queue = Bytes::default();
        let (mut pushed, mut left) = (0_u32, 0_u32);
        for step in 1..500_u32 {
            for _ in 0..step % 7 {
                queue.push(&pushed.to_le_bytes());
                pushed += 1;
            }
            for _ in 0..step % 5 {
                if let Some(first) = queue.as_slice().first_chunk() {
                    assert_eq!(u32::from_le_bytes(*first), left);
                    queue.skip(4);
                    left += 1;
                }
            }
            assert_eq!(queue.len() as u32, 4 * (pushed - left));
        }
        queue.skip(usize::MAX);
        assert!(queue.is_empty() && left > 100);
    }
}
