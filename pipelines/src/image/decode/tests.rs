//! Files that are no image, cut off, damaged, or larger than they look. What is decoded of good ones is in `tests/images.rs`.
#![allow(clippy::unwrap_used)]

use super::*;

const JPEG: &[u8] = include_bytes!("../../../tests/data/images/baseline.jpg");
const PROGRESSIVE: &[u8] = include_bytes!("../../../tests/data/images/progressive.jpg");
const GRAY: &[u8] = include_bytes!("../../../tests/data/images/gray.jpg");
const RGB: &[u8] = include_bytes!("../../../tests/data/images/rgb.jpg");
const CMYK: &[u8] = include_bytes!("../../../tests/data/images/cmyk.jpg");
const RESTARTS: &[u8] = include_bytes!("../../../tests/data/images/restarts.jpg");
/// White, 166 by 21, with a restart marker each 8 blocks: Pillow's `restart_marker_blocks`, at quality 100.
const FLAT_RESTARTS: &[u8] = include_bytes!("../../../tests/data/flat_restarts.jpg");
const TURNED: &[u8] = include_bytes!("../../../tests/data/images/oriented_6.jpg");
const PNG: &[u8] = include_bytes!("../../../tests/data/images/rgb.png");

fn refused(bytes: &[u8], how: &Decode, expected: &str) {
    let error = decode(bytes, how).unwrap_err();
    assert!(
        error.contains(expected),
        "{error:?} does not contain {expected:?}"
    );
}

/// With other bytes from the first `pattern` on, `skip` bytes behind its start.
fn patched(bytes: &[u8], pattern: &[u8], skip: usize, with: &[u8]) -> Vec<u8> {
    let at = bytes
        .windows(pattern.len())
        .position(|found| found == pattern)
        .unwrap()
        + skip;
    let mut bytes = bytes.to_vec();
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

/// The baseline JPEG, said to have other sides.
fn jpeg_of(height: u16, width: u16) -> Vec<u8> {
    let sides = [height.to_be_bytes(), width.to_be_bytes()].concat();
    patched(JPEG, &[0xff, 0xc0], 5, &sides)
}

fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// The PNG, said to have other sides.
fn png_of(height: u32, width: u32) -> Vec<u8> {
    let mut bytes = PNG.to_vec();
    bytes[16..20].copy_from_slice(&width.to_be_bytes());
    bytes[20..24].copy_from_slice(&height.to_be_bytes());
    let crc = crc(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&crc.to_be_bytes());
    bytes
}

#[test]
fn what_is_no_image_is_named_by_its_first_bytes() {
    let how = Decode::default();
    refused(b"", &how, "not a JPEG or PNG image: it is empty");
    refused(
        b"GIF89a\x01\0\x01",
        &how,
        "begins with 47 49 46 38 39 61 01 00 (\"GIF89a\\x01\\x00\")",
    );
    refused(b"\xff", &how, "begins with ff (\"\\xff\")");
    refused(b"{}", &how, "begins with 7b 7d (\"{}\")");
    refused(&JPEG[..2], &how, "ends before its last row");
}

#[test]
fn an_image_that_is_cut_off_is_refused_wherever() {
    let how = Decode::default();
    for whole in [JPEG, PROGRESSIVE, GRAY, CMYK, PNG] {
        for cut in (8..whole.len() - 40).step_by(7) {
            let error = decode(&whole[..cut], &how).unwrap_err();
            assert!(
                error.starts_with("a JPEG image that") || error.starts_with("a PNG image that"),
                "{error}"
            );
        }
        let cut = &whole[..whole.len() - 40];
        refused(cut, &how, "ends before its last row");
    }
}

#[test]
fn an_image_that_is_cut_off_and_ended_is_refused_too() {
    let how = Decode::default();
    for whole in [JPEG, GRAY, RGB, CMYK, RESTARTS] {
        assert!(decode(whole, &how).is_ok());
        // An interval that ends where it may is not seen, so the last one is cut.
        let begins = |marker: &[u8]| matches!(marker, [0xff, 0xd0..=0xd7 | 0xda]);
        let begins = whole.windows(2).rposition(begins).unwrap() + 16;
        // The last bytes may hold no more than what fills up the last one.
        for cut in begins..whole.len() - 4 {
            let ended = [&whole[..cut], &[0xff, 0xd9]].concat();
            let Err(error) = decode(&ended, &how) else {
                panic!("{cut} of {} bytes", whole.len())
            };
            assert!(error.starts_with("a JPEG image that"), "{cut}: {error}");
        }
    }
}

#[test]
fn blocks_that_were_read_ahead_of_a_restart_marker_are_not_lost() {
    for strict in [true, false] {
        let how = Decode {
            strict,
            ..Decode::default()
        };
        let white = decode(FLAT_RESTARTS, &how).unwrap();
        assert!(white.of::<u8>().unwrap().iter().all(|sample| *sample == 255));
    }
}

#[test]
fn what_there_is_of_a_cut_image_is_given_where_that_is_wanted() {
    let how = Decode {
        strict: false,
        ..Decode::default()
    };
    let whole = decode(JPEG, &how).unwrap();
    let cut = decode(&JPEG[..JPEG.len() - 200], &how).unwrap();
    assert_eq!(cut.shape(), whole.shape());
    assert_eq!(cut.of::<u8>().unwrap()[..30], whole.of::<u8>().unwrap()[..30]);
    assert_ne!(cut, whole);
    refused(&PNG[..PNG.len() - 40], &how, "ends before its last row");
}

#[test]
fn pixels_are_counted_before_they_are_decoded() {
    let how = Decode::default();
    refused(
        &jpeg_of(65_535, 65_535),
        &how,
        "a JPEG image of 65535 × 65535 = 4294836225 pixels; 67108864 pixels are the limit (pixels_max)",
    );
    refused(
        &png_of(1 << 30, 1 << 30),
        &how,
        "a PNG image of 1073741824 × 1073741824 = 1152921504606846976 pixels",
    );
    refused(&png_of(65_535, 65_535), &how, "67108864 pixels are the limit");
    // Wide, but few pixels: most of them are not there.
    let wide = jpeg_of(16, 65_535);
    refused(&wide, &how, "cut off or damaged");
    let lenient = Decode { strict: false, ..how };
    assert_eq!(decode(&wide, &lenient).unwrap().shape(), [16, 65_535, 3]);
    refused(&png_of(16, 65_535), &how, "not have enough data");
    let few = Decode {
        pixels_max: 34 * 21 - 1,
        ..how
    };
    refused(JPEG, &few, "of 34 × 21 = 714 pixels; 713 pixels are the limit");
    refused(PNG, &few, "of 34 × 21 = 714 pixels; 713 pixels are the limit");
    assert!(
        decode(
            JPEG,
            &Decode {
                pixels_max: 34 * 21,
                ..how
            }
        )
        .is_ok()
    );
    refused(
        &jpeg_of(0, 5),
        &how,
        "a JPEG image whose height is behind its pixels (DNL); save it anew",
    );
    refused(&jpeg_of(5, 0), &how, "a JPEG image that cannot be decoded");
    refused(&png_of(0, 5), &how, "a PNG image that cannot be decoded");
}

#[test]
fn what_jpeg_also_allows_is_refused_by_name() {
    let how = Decode::default();
    refused(
        &patched(JPEG, &[0xff, 0xc0], 1, &[0xc9]),
        &how,
        "cannot be decoded",
    );
    refused(&patched(JPEG, &[0xff, 0xc0], 4, &[12]), &how, "cannot be decoded");
    // Extended sequential, whose header may say 12 bits; and lossless.
    refused(
        &patched(JPEG, &[0xff, 0xc0], 1, &[0xc1, 0, 17, 12]),
        &how,
        "12-bit JPEG",
    );
    refused(
        &patched(JPEG, &[0xff, 0xc0], 1, &[0xc3]),
        &how,
        "cannot be decoded",
    );
    refused(
        &patched(JPEG, &[0xff, 0xc4], 4, &[0xff; 16]),
        &how,
        "cannot be decoded",
    );
}

#[test]
fn red_green_and_blue_are_known_by_the_transform_that_adobe_writes() {
    let how = Decode::default();
    let unnamed = patched(RGB, &[0xff, 0xc0], 10, &[1]);
    let unnamed = patched(&unnamed, &[0xff, 0xda], 5, &[1]);
    assert_eq!(decode(&unnamed, &how).unwrap(), decode(RGB, &how).unwrap());
}

#[test]
fn colors_are_those_wanted() {
    let by = |color| {
        move |bytes: &[u8]| {
            decode(
                bytes,
                &Decode {
                    color,
                    ..Decode::default()
                },
            )
            .unwrap()
        }
    };
    for file in [JPEG, PROGRESSIVE, GRAY, RGB, CMYK, PNG] {
        let (rgb, bgr, gray) = (by(Color::Rgb)(file), by(Color::Bgr)(file), by(Color::Gray)(file));
        let pixels = |image: &Tensor| image.of::<u8>().unwrap().as_chunks::<3>().0.to_vec();
        let swapped: Vec<[u8; 3]> = pixels(&bgr).iter().map(|&[b, g, r]| [r, g, b]).collect();
        assert_eq!(pixels(&rgb), swapped);
        assert_eq!(gray.shape(), [21, 34, 1]);
        for (gray, rgb) in gray.of::<u8>().unwrap().iter().zip(pixels(&rgb)) {
            // Lightness as it was stored: where colors were clipped when decoded it differs.
            let is_clipped = rgb.iter().any(|sample| [0, 255].contains(sample));
            let expected = color::gray_u8(rgb);
            assert!(is_clipped || gray.abs_diff(expected) <= 1, "{gray} for {rgb:?}");
        }
    }
}

#[test]
fn the_orientation_is_ignored_where_that_is_wanted() {
    let how = Decode {
        orientation: Orientation::Ignore,
        ..Decode::default()
    };
    assert_eq!(decode(TURNED, &how).unwrap(), decode(JPEG, &how).unwrap());
    assert_eq!(decode(TURNED, &Decode::default()).unwrap().shape(), [34, 21, 3]);
}
