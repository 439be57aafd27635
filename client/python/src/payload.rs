//! Python objects as a msgpack payload, written in one walk.
//!
//! It is no schema: what belongs under which key is the method's to say. Its invariants: no object makes it overflow the
//! stack or write much more than `bytes_max`; and what it cannot write is an exception that names the place,
//! `payload["a"][3]`.

use crate::pool::unsendable;
use millpond_client_rust::Encoding;
use millpond_client_rust::schema::payload::Encoder;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple, PyType};

/// Dicts and lists inside each other; what the decoders of both sides follow.
const DEPTH_MAX: usize = 60;
/// What a payload may hold, for messages.
const EXPECTED: &str = "None, bool, int, float, str, bytes, dict, list, tuple, an array of numbers (the buffer protocol) or numpy's of texts";
/// Formats of buffers whose items are numbers, as `struct` names them.
const NUMBER_FORMATS: &str = "?bBhHiIlLqQefd";

/// Writes the dict.
pub(crate) fn encode(method: &str, payload: &Bound<'_, PyAny>, bytes_max: usize) -> PyResult<Vec<u8>> {
    let Ok(dict) = payload.cast::<PyDict>() else {
        let found = type_name(payload);
        return Err(PyTypeError::new_err(format!(
            "the payload is a {found}; expected a dict"
        )));
    };
    let mut out = Vec::new();
    let mut walk = Walk { bytes_max, depth: 0 };
    walk.dict(dict, &mut Encoder::new(&mut out, Encoding::Msgpack, false))
        .map_err(|fault| fault.raised(payload.py(), method))?;
    Ok(out)
}

/// What stands in the way, and where; the path grows from the inside as the walk is left.
struct Fault {
    what: What,
    /// Innermost first.
    path: Vec<Step>,
}

enum What {
    /// A `TypeError`'s words, behind the place.
    Kind(String),
    /// A `ValueError`'s words, behind the place.
    Value(String),
    /// The payload is too large; an `UnsendableError`'s words, behind the place.
    Size(String),
    /// An exception of an object's own code.
    Python(PyErr),
}

enum Step {
    Key(String),
    At(usize),
}

impl Fault {
    fn under(mut self, step: Step) -> Fault {
        self.path.push(step);
        self
    }

    fn raised(self, py: Python<'_>, method: &str) -> PyErr {
        let mut place = "payload".to_owned();
        for step in self.path.iter().rev() {
            match step {
                Step::Key(key) => place.push_str(&format!("[{key:?}]")),
                Step::At(at) => place.push_str(&format!("[{at}]")),
            }
        }
        match self.what {
            What::Kind(what) => PyTypeError::new_err(format!("{place} {what}")),
            What::Value(what) => PyValueError::new_err(format!("{place} {what}")),
            What::Size(what) => unsendable(py, method, format!("{place} {what}")),
            What::Python(error) => error,
        }
    }
}

impl From<What> for Fault {
    fn from(what: What) -> Fault {
        Fault {
            what,
            path: Vec::new(),
        }
    }
}

struct Walk {
    bytes_max: usize,
    /// Dicts and lists that are open.
    depth: usize,
}

impl Walk {
    fn object(&mut self, object: &Bound<'_, PyAny>, out: &mut Encoder<'_>) -> Result<(), Fault> {
        self.room(1, out)?;
        if let Ok(text) = object.cast::<PyString>() {
            self.text(text, out)
        } else if let Ok(value) = object.cast::<PyBool>() {
            out.bool(value.is_true());
            Ok(())
        } else if let Ok(value) = object.cast::<PyInt>() {
            integer(value, out)
        } else if let Ok(value) = object.cast::<PyFloat>() {
            float(value.value(), out)
        } else if let Ok(dict) = object.cast::<PyDict>() {
            self.dict(dict, out)
        } else if let Ok(list) = object.cast::<PyList>() {
            self.items(list.len(), |at| list.get_item(at), out)
        } else if let Ok(tuple) = object.cast::<PyTuple>() {
            self.items(tuple.len(), |at| tuple.get_item(at), out)
        } else if let Ok(bytes) = object.cast::<PyBytes>() {
            self.bytes(bytes.as_bytes(), out)
        } else if object.is_none() {
            out.nil();
            Ok(())
        } else {
            self.buffer(object, out)
        }
    }

    fn text(&mut self, text: &Bound<'_, PyString>, out: &mut Encoder<'_>) -> Result<(), Fault> {
        let text = utf8(text)?;
        self.room(text.len(), out)?;
        out.text(text);
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8], out: &mut Encoder<'_>) -> Result<(), Fault> {
        self.room(bytes.len(), out)?;
        out.bytes(bytes);
        Ok(())
    }

    fn dict(&mut self, dict: &Bound<'_, PyDict>, out: &mut Encoder<'_>) -> Result<(), Fault> {
        self.open(dict.len(), out)?;
        // A copy, because the code of objects inside may change the dict meanwhile.
        let entries = dict.copy().map_err(What::Python)?;
        out.map(|out| {
            entries.iter().try_for_each(|(key, value)| {
                let Ok(key) = key.cast::<PyString>() else {
                    let what = format!("has a key of type {}; expected str", type_name(&key));
                    return Err(What::Kind(what).into());
                };
                let key = utf8(key)?;
                self.room(key.len(), out)?;
                out.key(key);
                self.object(&value, out)
                    .map_err(|fault| fault.under(Step::Key(key.to_owned())))
            })
        })?;
        self.depth -= 1;
        Ok(())
    }

    fn items<'py>(
        &mut self,
        len: usize,
        item: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
        out: &mut Encoder<'_>,
    ) -> Result<(), Fault> {
        self.open(len, out)?;
        out.array(|out| {
            (0..len).try_for_each(|at| {
                let shrank = |_| What::Value(format!("lost items while it was sent; it had {len}"));
                let item = item(at).map_err(shrank)?;
                self.object(&item, out).map_err(|fault| fault.under(Step::At(at)))
            })
        })?;
        self.depth -= 1;
        Ok(())
    }

    /// An array of numbers as one block of its items, little-endian, in the order of its elements; an array without
    /// dimensions (numpy's scalars) as the number that it is.
    fn buffer(&mut self, object: &Bound<'_, PyAny>, out: &mut Encoder<'_>) -> Result<(), Fault> {
        let view = match PyMemoryView::from(object) {
            Ok(view) => view,
            Err(_) if has_no_format(object) => return self.unformatted(object, out),
            Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => {
                let what = format!("is a {}; expected {EXPECTED}", type_name(object));
                return Err(What::Kind(what).into());
            }
            Err(error) => return Err(What::Value(format!("cannot be read: {error}")).into()),
        };
        let of_view = |name: &str| view.getattr(name).map_err(What::Python);
        let format: String = of_view("format")?.extract().map_err(What::Python)?;
        let item_bytes: usize = of_view("itemsize")?.extract().map_err(What::Python)?;
        if !is_block(&format, item_bytes) {
            if has_no_format(object) {
                return self.unformatted(object, out);
            }
            let what = format!(
                "is a {} of items of format {format:?}; expected numbers in this machine's byte order ({NUMBER_FORMATS})",
                type_name(object)
            );
            return Err(What::Kind(what).into());
        }
        let dimensions: usize = of_view("ndim")?.extract().map_err(What::Python)?;
        let bytes: usize = of_view("nbytes")?.extract().map_err(What::Python)?;
        self.room(bytes, out)?;
        let block = view.call_method0("tobytes").map_err(What::Python)?;
        if dimensions == 0 {
            let number = item(&format, &block).map_err(What::Python)?;
            return self.object(&number, out);
        }
        let block = block
            .cast::<PyBytes>()
            .map_err(|error| What::Python(error.into()))?;
        self.bytes(block.as_bytes(), out)
    }

    /// An array of texts, bytes or objects as the lists of them; one of bfloat16 as one of its bits, or as a number where it has no
    /// dimensions.
    fn unformatted(&mut self, array: &Bound<'_, PyAny>, out: &mut Encoder<'_>) -> Result<(), Fault> {
        let number = |name: &str| array.getattr(name).and_then(|number| number.extract::<usize>());
        // An array of objects may hold itself, and one may be much smaller than the list of its items.
        self.open(number("size").map_err(What::Python)?, out)?;
        let plain = if !is_bfloat16(array) {
            array.call_method0("tolist")
        } else if number("ndim").map_err(What::Python)? == 0 {
            array.call_method0("__float__")
        } else {
            array.call_method1("view", ("uint16",))
        };
        self.object(&plain.map_err(What::Python)?, out)?;
        self.depth -= 1;
        Ok(())
    }

    /// Another dict or list begins, with so many entries.
    fn open(&mut self, len: usize, out: &Encoder<'_>) -> Result<(), Fault> {
        self.room(len, out)?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let what = format!("is nested more than {DEPTH_MAX} deep; does it hold itself?");
            return Err(What::Value(what).into());
        }
        Ok(())
    }

    /// Whether so many bytes more may be written.
    fn room(&self, bytes: usize, out: &Encoder<'_>) -> Result<(), Fault> {
        let total = out.written_bytes().saturating_add(bytes);
        if total > self.bytes_max {
            let what = format!(
                "ends {total} bytes or more into the payload, over the limit of {}; split the call, or raise frame_bytes_max",
                self.bytes_max
            );
            return Err(What::Size(what).into());
        }
        Ok(())
    }
}

fn integer(value: &Bound<'_, PyInt>, out: &mut Encoder<'_>) -> Result<(), Fault> {
    if let Ok(value) = value.extract::<i64>() {
        out.int(value);
    } else if let Ok(value) = value.extract::<u64>() {
        out.uint(value);
    } else {
        let what = "is out of range; integers go from -2**63 to 2**64 - 1".to_owned();
        return Err(What::Value(what).into());
    }
    Ok(())
}

fn float(value: f64, out: &mut Encoder<'_>) -> Result<(), Fault> {
    if !value.is_finite() {
        return Err(What::Value(format!("is {value}; floats must be finite")).into());
    }
    out.f64(value);
    Ok(())
}

fn utf8<'a>(text: &'a Bound<'_, PyString>) -> Result<&'a str, Fault> {
    text.to_str().map_err(|_| {
        let what = "has text with half of a surrogate pair, which UTF-8 cannot hold".to_owned();
        What::Value(what).into()
    })
}

/// Whether items of that format can be sent as they lie in memory: numbers, and little-endian.
fn is_block(format: &str, item_bytes: usize) -> bool {
    let native = cfg!(target_endian = "little") || item_bytes == 1;
    let (order, code) = match format.as_bytes() {
        [code] => (native, code),
        [b'@' | b'=', code] => (native, code),
        [b'<', code] => (true, code),
        [b'>' | b'!', code] => (item_bytes == 1, code),
        _ => return false,
    };
    order && NUMBER_FORMATS.as_bytes().contains(code)
}

/// Whether it is one of numpy's arrays whose items the buffer protocol has no name for, or none of numbers.
pub(crate) fn has_no_format(object: &Bound<'_, PyAny>) -> bool {
    let kind = object.getattr("dtype").and_then(|dtype| dtype.getattr("kind"));
    let kind = kind.and_then(|kind| kind.extract::<String>());
    kind.is_ok_and(|kind| ["O", "U", "S", "T"].contains(&kind.as_str())) || is_bfloat16(object)
}

/// Whether it is of ml_dtypes' type.
pub(crate) fn is_bfloat16(object: &Bound<'_, PyAny>) -> bool {
    let name = object.getattr("dtype").and_then(|dtype| dtype.getattr("name"));
    name.and_then(|name| name.extract::<String>())
        .is_ok_and(|name| name == "bfloat16")
}

/// The number that is written so, as Python's.
fn item<'py>(format: &str, bytes: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let read = bytes.py().import("struct")?.getattr("unpack")?;
    read.call1((format, bytes))?.get_item(0)
}

pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    let class: Bound<'_, PyType> = object.get_type();
    class
        .name()
        .map_or_else(|_| "nameless type".to_owned(), |name| name.to_string())
}
