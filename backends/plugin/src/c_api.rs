//! `millpond_plugin.h` from the host's side: a table of functions that a shared library returns. All unsafe code of the backend is here.
//!
//! It decides nothing about configuration. Its invariants: no number that a plugin says is believed before it is compared with a bound,
//! and what a plugin's memory holds is copied before it is used. Whether a pointer points to as much as the plugin says cannot be seen
//! from here: that is what worker processes are for.
#![allow(unsafe_code)]

use crate::raw;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use millpond_backends_interface::foreign::{
    NAME_BYTES_MAX, PORTS_MAX, RANK_MAX, number_of, strings, type_of,
};
use millpond_backends_interface::{Port, Signature};
use millpond_tensor::{Data, ElementType, Elements, Tensor, bf16, element_types, f16};
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The version of the header.
const ABI: u32 = 1;
/// The one symbol.
const SYMBOL: &CStr = c"millpond_plugin_get";
/// Bytes of a failure's text that are read.
const ERROR_BYTES_MAX: usize = 4096;

/// The functions of a plugin, all there.
#[derive(Clone, Copy)]
struct Functions {
    init: raw::Init,
    signature: raw::SignatureOf,
    free_model: raw::FreeModel,
    create: raw::Create,
    run: raw::Run,
    destroy: raw::Destroy,
    last_error: raw::LastError,
}

/// What `init` made.
pub(crate) struct Model {
    functions: Functions,
    model: NonNull<raw::Model>,
}

// SAFETY: the header says that several threads may create instances of one model at once, and nothing else is called on it from more
// than one thread: `signature` is called before it is shared, `free_model` when the last of them lets go.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

/// What `create` made; its model outlives it.
pub(crate) struct Instance {
    model: Arc<Model>,
    instance: NonNull<raw::Instance>,
}

// SAFETY: the header says that an instance is used by one thread at a time, not always the same; `&mut` and `Drop` see to the former.
unsafe impl Send for Instance {}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: it came from `init` of the same plugin, and no instance of it is left: each holds the model.
        unsafe { (self.functions.free_model)(self.model.as_ptr()) }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: it came from `create` of the same plugin, and nothing else destroys it.
        unsafe { (self.model.functions.destroy)(self.instance.as_ptr()) }
    }
}

/// Loads the library, for ever: its code may have left threads behind that a removal would pull the ground from under.
fn functions(path: &Path) -> Result<Functions, String> {
    // SAFETY: loading runs the library's constructors, which is what naming it in the configuration asks for.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|error| format!("it cannot be loaded: {}", source_of(&error)))?;
    // SAFETY: the header gives the symbol this type; a library with another one under this name is not a plugin of ours, and no check
    // could tell.
    let get = unsafe { library.get::<raw::Get>(SYMBOL.to_bytes_with_nul()) };
    let get = get.map(|get| *get).map_err(|_| {
        format!(
            "it has no function {}; a plugin exports it (millpond_plugin.h)",
            SYMBOL.to_string_lossy()
        )
    })?;
    std::mem::forget(library);
    // SAFETY: the library stays loaded.
    let table = unsafe { get(ABI) };
    if table.is_null() || !table.is_aligned() {
        return Err(format!("{} returned no table", SYMBOL.to_string_lossy()));
    }
    // SAFETY: the first two fields are the same in every version, and a plugin's table lives as long as the process.
    let (abi, struct_bytes) = unsafe { ((*table).abi, (*table).struct_bytes) };
    if abi != ABI {
        return Err(format!(
            "it was built for version {abi} of millpond_plugin.h, and this server speaks version {ABI}; build it with this server's header"
        ));
    }
    if (struct_bytes as usize) < size_of::<raw::Plugin>() {
        return Err(format!(
            "its table has {struct_bytes} bytes, and version {ABI} of millpond_plugin.h has {}; set struct_bytes to sizeof(millpond_plugin)",
            size_of::<raw::Plugin>()
        ));
    }
    // SAFETY: the plugin says that the whole struct is there; every field takes any bytes, a function that is null included.
    let table = unsafe { table.read() };
    let missing = |name: &str| format!("its table has no function {name}");
    Ok(Functions {
        init: table.init.ok_or_else(|| missing("init"))?,
        signature: table.signature.ok_or_else(|| missing("signature"))?,
        free_model: table.free_model.ok_or_else(|| missing("free_model"))?,
        create: table.create.ok_or_else(|| missing("create"))?,
        run: table.run.ok_or_else(|| missing("run"))?,
        destroy: table.destroy.ok_or_else(|| missing("destroy"))?,
        last_error: table.last_error.ok_or_else(|| missing("last_error"))?,
    })
}

/// The loader's own words, without ours around them.
fn source_of(error: &libloading::Error) -> String {
    let inner = std::error::Error::source(error).map(ToString::to_string);
    inner.unwrap_or_else(|| error.to_string())
}

impl Functions {
    /// What a call that failed says of it.
    fn failure(&self, function: &str, status: i32) -> String {
        // SAFETY: the function may be called at any time, by any thread.
        let text = unsafe { (self.last_error)() };
        // SAFETY: the header has the plugin keep that text until this thread's next call.
        match unsafe { text_at(text, ERROR_BYTES_MAX) } {
            Some(text) if !text.is_empty() => String::from_utf8_lossy(&text).into_owned(),
            _ => format!("{function} returned {status}, and last_error nothing"),
        }
    }
}

/// A copy of the text there, up to so many bytes of it; `None` for no text.
///
/// # Safety
/// It is null, or readable up to a zero byte or so far.
unsafe fn text_at(text: *const c_char, bytes_max: usize) -> Option<Vec<u8>> {
    let text = NonNull::new(text.cast_mut())?;
    let mut bytes = Vec::new();
    while bytes.len() < bytes_max {
        // SAFETY: no zero byte was met before this place, and it is nearer than the limit.
        match unsafe { text.add(bytes.len()).read() } {
            0 => break,
            byte => bytes.push(byte.cast_unsigned()),
        }
    }
    Some(bytes)
}

/// Loads the library and has it make a model; what the model takes and gives, and whether threads that bring requests may run it.
pub(crate) fn load(
    path: &Path,
    options: &[(CString, CString)],
) -> Result<(Arc<Model>, Signature, bool), String> {
    let functions = functions(path)?;
    let path = CString::new(path.as_os_str().as_encoded_bytes());
    let path = path.map_err(|_| "its path holds a zero byte".to_owned())?;
    let pairs: Vec<raw::Option> = options
        .iter()
        .map(|(key, value)| raw::Option {
            key: key.as_ptr(),
            value: value.as_ptr(),
        })
        .collect();
    let arguments = raw::InitArguments {
        struct_bytes: size_of::<raw::InitArguments>(),
        path: path.as_ptr(),
        options: pairs.as_ptr(),
        options_count: pairs.len(),
    };
    let mut model = ptr::null_mut();
    // SAFETY: the arguments outlive the call, and there is a place for the model.
    let status = unsafe { (functions.init)(&arguments, &mut model) };
    if status != 0 {
        return Err(functions.failure("init", status));
    }
    let model = NonNull::new(model).ok_or("init succeeded and made no model")?;
    let model = Arc::new(Model { functions, model });
    let (signature, runs_inline) = model.signature()?;
    signature
        .check_foreign()
        .map_err(|problem| format!("its signature: {problem}"))?;
    Ok((model, signature, runs_inline))
}

impl Model {
    fn signature(&self) -> Result<(Signature, bool), String> {
        let mut found = raw::Signature {
            struct_bytes: size_of::<raw::Signature>(),
            flags: 0,
            inputs_count: 0,
            outputs_count: 0,
            inputs: ptr::null(),
            outputs: ptr::null(),
        };
        // SAFETY: the model lives, and so does the place for its signature.
        let status = unsafe { (self.functions.signature)(self.model.as_ptr(), &mut found) };
        if status != 0 {
            return Err(self.functions.failure("signature", status));
        }
        let ports = |what: &str, list: *const *const raw::Port, count: u32| {
            if count as usize > PORTS_MAX || (list.is_null() && count > 0) || !list.is_aligned() {
                return Err(format!("its signature has no list of {count} {what}s"));
            }
            (0..count as usize)
                .map(|at| {
                    // SAFETY: the plugin says that so many pointers are there until the model is freed.
                    let port = unsafe { list.add(at).read() };
                    // SAFETY: as above, of the port behind it.
                    unsafe { read_port(port) }.map_err(|problem| format!("{what} {at} {problem}"))
                })
                .collect::<Result<Vec<Port>, String>>()
        };
        let signature = Signature {
            inputs: ports("input", found.inputs, found.inputs_count)?,
            outputs: ports("output", found.outputs, found.outputs_count)?,
            batched: found.flags & raw::BATCHED != 0,
        };
        Ok((signature, found.flags & raw::INLINE != 0))
    }

    /// Has the plugin make an instance.
    pub(crate) fn instance(self: &Arc<Self>) -> Result<Instance, String> {
        let mut instance = ptr::null_mut();
        // SAFETY: the model lives; several threads may do this at once.
        let status = unsafe { (self.functions.create)(self.model.as_ptr(), &mut instance) };
        if status != 0 {
            return Err(self.functions.failure("create", status));
        }
        let instance = NonNull::new(instance).ok_or("create succeeded and made no instance")?;
        Ok(Instance {
            model: Arc::clone(self),
            instance,
        })
    }
}

/// Copies a port.
///
/// # Safety
/// It is null, or what it says of itself is there.
unsafe fn read_port(port: *const raw::Port) -> Result<Port, String> {
    if port.is_null() || !port.is_aligned() {
        return Err("is a null pointer".to_owned());
    }
    // SAFETY: the first field is there in every version.
    if unsafe { (*port).struct_bytes } < size_of::<raw::Port>() {
        return Err("has a struct_bytes below sizeof(millpond_port)".to_owned());
    }
    // SAFETY: the plugin says that the whole struct is there.
    let port = unsafe { port.read() };
    // SAFETY: the header has names end with a zero byte; one more byte than is allowed shows that a name is too long.
    let name = unsafe { text_at(port.name, NAME_BYTES_MAX + 1) }.ok_or("has no name")?;
    let name = String::from_utf8(name).map_err(|_| "has a name that is not UTF-8")?;
    let element_type = type_of(port.element_type)
        .ok_or_else(|| format!("`{name}` has the unknown type {}", port.element_type))?;
    let rank = port.rank as usize;
    if rank > RANK_MAX {
        return Err(format!(
            "`{name}` has {rank} dimensions; expected at most {RANK_MAX}"
        ));
    }
    if port.shape.is_null() && rank > 0 {
        return Err(format!("`{name}` has {rank} dimensions and no shape"));
    }
    let size = |at: usize| {
        // SAFETY: the plugin says that so many sizes are there; they may lie at any address.
        match unsafe { port.shape.add(at).read_unaligned() } {
            -1 => Ok(None),
            size => usize::try_from(size).map(Some).map_err(|_| {
                format!("`{name}` has the size {size}; expected 0 or more, or -1 for a free one")
            }),
        }
    };
    let shape = (0..rank)
        .map(size)
        .collect::<Result<Vec<Option<usize>>, String>>()?;
    Ok(Port {
        name,
        element_type,
        shape,
    })
}

/// An input as the plugin sees it, and what it points to.
struct Lent {
    /// The shape, and where strings end.
    _pointed_to: (Vec<u64>, Vec<u64>),
    tensor: raw::Tensor,
}

macro_rules! bytes_of {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        /// Where elements lie, how many bytes they are, and where strings end.
        fn place(elements: Elements<'_>) -> (*const u8, usize, Vec<u64>) {
            match elements {
                $(Elements::$variant(elements) => (elements.as_ptr().cast(), size_of_val(elements), Vec::new()),)*
                Elements::Bytes(strings) => {
                    let joined = strings.joined();
                    let ends = strings.iter().scan(0u64, |end, string| {
                        *end += string.len() as u64;
                        Some(*end)
                    });
                    (joined.as_ptr(), joined.len(), ends.collect())
                }
            }
        }

        /// A copy of `len` elements of that type.
        ///
        /// # Safety
        /// `data` is readable for `len` elements of the type; it may be null where `len` is 0. Byte strings are none of them.
        unsafe fn copy(element_type: ElementType, data: *const u8, len: usize) -> Option<Data> {
            match element_type {
                // SAFETY: as above.
                $(ElementType::$variant => Some(Data::$variant(unsafe { copied!($kind, $type, data, len) })),)*
                ElementType::Bytes => None,
            }
        }
    };
}

/// A truth value is any byte but zero, whatever the plugin wrote there; of numbers, any bytes are one.
macro_rules! copied {
    (truth, $type:ident, $data:ident, $len:ident) => {
        copy_plain::<u8>($data, $len)
            .into_iter()
            .map(|byte| byte != 0)
            .collect()
    };
    ($kind:ident, $type:ident, $data:ident, $len:ident) => {
        copy_plain::<$type>($data, $len)
    };
}

/// # Safety
/// `data` is readable for `len` elements, and any bytes are a value of `T`.
unsafe fn copy_plain<T: Copy>(data: *const u8, len: usize) -> Vec<T> {
    let mut elements: Vec<T> = Vec::with_capacity(len);
    if len > 0 {
        // SAFETY: the caller says that the source is there, at any alignment; the vector has the capacity, and all of it is written
        // before its length says so.
        unsafe {
            ptr::copy_nonoverlapping(data, elements.as_mut_ptr().cast::<u8>(), len * size_of::<T>());
            elements.set_len(len);
        }
    }
    elements
}

element_types!(bytes_of);

impl Lent {
    fn of(tensor: &Tensor) -> Lent {
        let shape: Vec<u64> = tensor.shape().iter().map(|size| *size as u64).collect();
        let (data, data_bytes, ends) = place(tensor.elements());
        let is_strings = tensor.element_type() == ElementType::Bytes;
        let tensor = raw::Tensor {
            struct_bytes: size_of::<raw::Tensor>(),
            element_type: number_of(tensor.element_type()),
            rank: u32::try_from(shape.len()).unwrap_or(u32::MAX),
            shape: shape.as_ptr(),
            data,
            data_bytes,
            ends: if is_strings { ends.as_ptr() } else { ptr::null() },
            ends_count: ends.len(),
        };
        Lent {
            _pointed_to: (shape, ends),
            tensor,
        }
    }
}

impl Instance {
    /// Runs the model once, and copies what it gives: one tensor for each of `ports`, each as its port and `rows` say.
    pub(crate) fn run(
        &mut self,
        inputs: &[Tensor],
        ports: &[Port],
        rows: Option<usize>,
    ) -> Result<Vec<Tensor>, String> {
        let lent: Vec<Lent> = inputs.iter().map(Lent::of).collect();
        let given: Vec<*const raw::Tensor> = lent.iter().map(|lent| ptr::from_ref(&lent.tensor)).collect();
        let mut made = vec![raw::Tensor::EMPTY; ports.len()];
        let places: Vec<*mut raw::Tensor> = made.iter_mut().map(ptr::from_mut).collect();
        // SAFETY: all lists are as long as said and outlive the call, and so does what the inputs point to. The plugin writes to the
        // places of outputs alone.
        let status = unsafe {
            (self.model.functions.run)(
                self.instance.as_ptr(),
                given.as_ptr(),
                given.len(),
                places.as_ptr(),
                places.len(),
            )
        };
        drop(lent);
        if status != 0 {
            return Err(self.model.functions.failure("run", status));
        }
        let outputs = ports.iter().zip(&made).map(|(port, made)| {
            // SAFETY: the header has what an output points to stay until the next call with this instance, which `&mut` keeps off.
            unsafe { read_output(port, made, rows) }
                .map_err(|problem| format!("output `{}` {problem}", port.name))
        });
        outputs.collect()
    }
}

/// Copies an output, which must be as its port says.
///
/// # Safety
/// What it points to is there, as far as it says.
unsafe fn read_output(port: &Port, made: &raw::Tensor, rows: Option<usize>) -> Result<Tensor, String> {
    if made.element_type == 0 {
        return Err("was not set".to_owned());
    }
    let rank = made.rank as usize;
    if rank != port.shape.len() || (made.shape.is_null() && rank > 0) {
        return Err(format!(
            "has {rank} dimensions, or no shape, and its signature says {}",
            port.shape.len()
        ));
    }
    // SAFETY: the plugin says that so many sizes are there, which are as many as its signature says.
    let sizes = (0..rank).map(|at| unsafe { made.shape.add(at).read_unaligned() });
    let (shape, len) = port.check_output(made.element_type, sizes, rows)?;
    if made.data.is_null() && made.data_bytes > 0 {
        return Err("has a null pointer for its elements".to_owned());
    }
    let fits = |bytes: &usize| isize::try_from(*bytes).is_ok();
    let bytes = port
        .element_type
        .bytes()
        .map(|width| len.checked_mul(width).filter(fits));
    let data = match bytes {
        Some(bytes) if bytes == Some(made.data_bytes) => {
            // SAFETY: the plugin says that so many bytes are there, which are as many as the shape takes.
            unsafe { copy(port.element_type, made.data, len) }.ok_or("has elements of no one width")?
        }
        Some(_) => {
            return Err(format!(
                "has {} bytes, which are not {len} elements of {}",
                made.data_bytes, port.element_type
            ));
        }
        None => {
            if made.ends_count != len || (made.ends.is_null() && len > 0) || !fits(&made.data_bytes) {
                return Err(format!(
                    "has {} ends of strings, or none at all, and its shape {len} elements",
                    made.ends_count
                ));
            }
            // SAFETY: the plugin says that so many bytes are there; any byte is a u8.
            let joined: Vec<u8> = unsafe { copy_plain(made.data, made.data_bytes) };
            // SAFETY: the plugin says that there are so many ends.
            let ends = (0..len).map(|at| unsafe { made.ends.add(at).read_unaligned() });
            Data::Bytes(strings(&joined, ends)?)
        }
    };
    Tensor::new(shape, data).map_err(|error| error.to_string())
}
