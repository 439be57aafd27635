//! What stands between a connection's bytes and its session's: a byte layer.
//!
//! It knows no message. Its invariant: once a connection has a layer, no byte leaves or comes past it.

/// An encryption of one connection.
pub trait Layer {
    /// Bytes that one read takes at most: it bounds what one turn opens.
    fn read_bytes_max(&self) -> usize {
        usize::MAX
    }

    /// Its connection, which this side has opened, is connected: its first words go to `out`, before what waits there.
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    /// Opens received bytes, in place or not. The content is appended to `plain`, the layer's own answers to `out`.
    fn open(&mut self, received: &mut [u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Opened;

    /// One whole message was written to `out` from `start` on.
    fn seal_message(&mut self, _out: &mut Vec<u8>, _start: usize) {}

    /// Seals what is left of a turn's messages, with `spare` to work in. False if that cannot be.
    fn seal(&mut self, _out: &mut Vec<u8>, _spare: &mut Vec<u8>) -> bool {
        true
    }

    /// Bytes at the front of `out`, which has so many, that may leave.
    fn sealed(&self, out_bytes: usize) -> usize {
        out_bytes
    }

    /// So many bytes at the front of `out` were sent, or all of them.
    fn forget_sealed(&mut self, _bytes: usize) {}

    /// The message that ends its stream; empty if it has none.
    fn close(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Whether its handshake is not done: until then nothing is served.
    fn is_shaking(&self) -> bool {
        false
    }

    /// Of a connection that this side has opened: why it failed and what to do, where that was the layer's doing.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Bytes of memory that hold what cannot be opened yet; if there are any, the peer is late with the rest.
    fn held_bytes(&self) -> usize;

    /// Frees it: nothing more is received.
    fn forget_held(&mut self);
}

/// What came of received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// More may follow.
    Open,
    /// The peer has ended its stream.
    Ended,
    /// They cannot be opened, nor anything after them.
    Failed,
}
