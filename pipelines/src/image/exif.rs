//! The orientation that cameras write, and turning by it. The rest of EXIF is not read.
//!
//! Its invariant: what cannot be read is orientation 1, which leaves the image as it is.

use super::Size;

/// The tag of the orientation in the first directory.
const ORIENTATION: u16 = 0x0112;
/// The type of a 16-bit number.
const SHORT: u16 = 3;

/// The orientation, 1 to 8, of EXIF data from its TIFF header on, with or without `Exif\0\0` before it.
pub(super) fn orientation(exif: &[u8]) -> u8 {
    find(exif.strip_prefix(b"Exif\0\0").unwrap_or(exif)).unwrap_or(1)
}

fn find(tiff: &[u8]) -> Option<u8> {
    let is_little = match tiff.first_chunk::<4>()? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = *tiff.get(at..)?.first_chunk::<2>()?;
        Some(if is_little {
            u16::from_le_bytes(bytes)
        } else {
            u16::from_be_bytes(bytes)
        })
    };
    let bytes = *tiff.get(4..)?.first_chunk::<4>()?;
    let directory = if is_little {
        u32::from_le_bytes(bytes)
    } else {
        u32::from_be_bytes(bytes)
    };
    let directory = usize::try_from(directory).ok()?;
    let entries = usize::from(short(directory)?);
    for entry in 0..entries {
        let at = directory.checked_add(2 + 12 * entry)?;
        if short(at)? == ORIENTATION && short(at + 2)? == SHORT {
            let value = u8::try_from(short(at + 8)?).ok()?;
            return (1..=8).contains(&value).then_some(value);
        }
    }
    None
}

/// The image as it was seen when it was taken.
pub(super) fn turn(size: Size, channels: usize, samples: Vec<u8>, orientation: u8) -> (Size, Vec<u8>) {
    let Size { height, width } = size;
    let turned = match orientation {
        5..=8 => Size {
            height: width,
            width: height,
        },
        _ => size,
    };
    // Where the pixel (y, x) of the result is stored.
    let stored = |y: usize, x: usize| match orientation {
        2 => (y, width - 1 - x),
        3 => (height - 1 - y, width - 1 - x),
        4 => (height - 1 - y, x),
        5 => (x, y),
        6 => (height - 1 - x, y),
        7 => (height - 1 - x, width - 1 - y),
        8 => (x, width - 1 - y),
        _ => (y, x),
    };
    if !(2..=8).contains(&orientation) {
        return (size, samples);
    }
    let mut out = Vec::with_capacity(samples.len());
    for y in 0..turned.height {
        for x in 0..turned.width {
            let (y, x) = stored(y, x);
            let at = (y * width + x) * channels;
            out.extend_from_slice(samples.get(at..at + channels).unwrap_or_default());
        }
    }
    (turned, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiff(little: bool, tag: u16, value: u16) -> Vec<u8> {
        let short = |value: u16| {
            if little {
                value.to_le_bytes()
            } else {
                value.to_be_bytes()
            }
        };
        let mut bytes = if little {
            b"II*\0\x08\0\0\0".to_vec()
        } else {
            b"MM\0*\0\0\0\x08".to_vec()
        };
        for number in [2, 0x010f, 2, 0, 0, 0, 0, tag, 3, 0, 1, value, 0] {
            bytes.extend(short(number));
        }
        bytes
    }

    #[test]
    fn the_orientation_is_found_or_is_1() {
        for little in [true, false] {
            assert_eq!(orientation(&tiff(little, ORIENTATION, 6)), 6);
            assert_eq!(
                orientation(&[&b"Exif\0\0"[..], &tiff(little, ORIENTATION, 8)].concat()),
                8
            );
            assert_eq!(orientation(&tiff(little, ORIENTATION, 9)), 1);
            assert_eq!(orientation(&tiff(little, 0x0100, 6)), 1);
            let whole = tiff(little, ORIENTATION, 3);
            for cut in 0..whole.len() - 2 {
                assert_eq!(orientation(&whole[..cut]), 1, "{cut}");
            }
        }
        assert_eq!(orientation(b"II*\0\xff\xff\xff\xff"), 1);
    }

    /// Turns `ab/cd/ef`, two wide and three high.
    fn check(orientation: u8, expected: &[&str]) {
        let size = Size { height: 3, width: 2 };
        let (turned, samples) = turn(size, 1, b"abcdef".to_vec(), orientation);
        let rows: Vec<&[u8]> = samples.chunks(turned.width).collect();
        let expected: Vec<&[u8]> = expected.iter().map(|row| row.as_bytes()).collect();
        assert_eq!((turned.height, rows), (expected.len(), expected), "{orientation}");
    }

    #[test]
    fn images_are_turned_and_mirrored() {
        check(1, &["ab", "cd", "ef"]);
        check(2, &["ba", "dc", "fe"]);
        check(3, &["fe", "dc", "ba"]);
        check(4, &["ef", "cd", "ab"]);
        check(5, &["ace", "bdf"]);
        check(6, &["eca", "fdb"]);
        check(7, &["fdb", "eca"]);
        check(8, &["bdf", "ace"]);
    }
}
