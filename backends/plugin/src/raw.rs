//! The structs and functions of `include/millpond_plugin.h`, field by field. It calls nothing. Its invariant: every field here is in
//! the header, in this order and of this width, which a test compiles the header to see.

use std::ffi::c_char;

/// `MILLPOND_BATCHED`
pub(crate) const BATCHED: u32 = 1;
/// `MILLPOND_INLINE`
pub(crate) const INLINE: u32 = 2;

/// `millpond_model`: nobody here looks inside.
#[repr(C)]
pub(crate) struct Model {
    _nothing: [u8; 0],
}

/// `millpond_instance`, likewise.
#[repr(C)]
pub(crate) struct Instance {
    _nothing: [u8; 0],
}

/// `millpond_option`
#[repr(C)]
pub(crate) struct Option {
    pub(crate) key: *const c_char,
    pub(crate) value: *const c_char,
}

/// `millpond_init`
#[repr(C)]
pub(crate) struct InitArguments {
    pub(crate) struct_bytes: usize,
    pub(crate) path: *const c_char,
    pub(crate) options: *const Option,
    pub(crate) options_count: usize,
}

/// `millpond_port`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Port {
    pub(crate) struct_bytes: usize,
    pub(crate) name: *const c_char,
    pub(crate) element_type: u32,
    pub(crate) rank: u32,
    pub(crate) shape: *const i64,
}

/// `millpond_signature`
#[repr(C)]
pub(crate) struct Signature {
    pub(crate) struct_bytes: usize,
    pub(crate) flags: u32,
    pub(crate) inputs_count: u32,
    pub(crate) outputs_count: u32,
    pub(crate) inputs: *const *const Port,
    pub(crate) outputs: *const *const Port,
}

/// `millpond_tensor`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Tensor {
    pub(crate) struct_bytes: usize,
    pub(crate) element_type: u32,
    pub(crate) rank: u32,
    pub(crate) shape: *const u64,
    pub(crate) data: *const u8,
    pub(crate) data_bytes: usize,
    pub(crate) ends: *const u64,
    pub(crate) ends_count: usize,
}

impl Tensor {
    /// An output before the plugin has set it.
    pub(crate) const EMPTY: Tensor = Tensor {
        struct_bytes: size_of::<Tensor>(),
        element_type: 0,
        rank: 0,
        shape: std::ptr::null(),
        data: std::ptr::null(),
        data_bytes: 0,
        ends: std::ptr::null(),
        ends_count: 0,
    };
}

pub(crate) type Init = unsafe extern "C" fn(*const InitArguments, *mut *mut Model) -> i32;
pub(crate) type SignatureOf = unsafe extern "C" fn(*mut Model, *mut Signature) -> i32;
pub(crate) type FreeModel = unsafe extern "C" fn(*mut Model);
pub(crate) type Create = unsafe extern "C" fn(*mut Model, *mut *mut Instance) -> i32;
pub(crate) type Run =
    unsafe extern "C" fn(*mut Instance, *const *const Tensor, usize, *const *mut Tensor, usize) -> i32;
pub(crate) type Destroy = unsafe extern "C" fn(*mut Instance);
pub(crate) type LastError = unsafe extern "C" fn() -> *const c_char;
/// `millpond_plugin_get`
pub(crate) type Get = unsafe extern "C" fn(u32) -> *const Plugin;

/// `millpond_plugin`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Plugin {
    pub(crate) abi: u32,
    pub(crate) struct_bytes: u32,
    pub(crate) init: std::option::Option<Init>,
    pub(crate) signature: std::option::Option<SignatureOf>,
    pub(crate) free_model: std::option::Option<FreeModel>,
    pub(crate) create: std::option::Option<Create>,
    pub(crate) run: std::option::Option<Run>,
    pub(crate) destroy: std::option::Option<Destroy>,
    pub(crate) last_error: std::option::Option<LastError>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_backends_interface::foreign::{NAME_BYTES_MAX, PORTS_MAX, RANK_MAX, number_of};
    use millpond_tensor::ElementType;
    use std::mem::offset_of;
    use std::path::Path;
    use std::process::Command;

    /// What a C compiler says of the header.
    fn in_c(expressions: &[String]) -> Vec<usize> {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("layout.c"), folder.path().join("layout"));
        let prints: String = expressions
            .iter()
            .map(|expression| format!("printf(\"%zu\\n\", (size_t)({expression}));\n"))
            .collect();
        let text = format!(
            "#include <stdio.h>\n#include \"millpond_plugin.h\"\nint main(void) {{ {prints} return 0; }}\n"
        );
        std::fs::write(&source, text).unwrap();
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I"]);
        compiler.arg(include).arg("-o").arg(&program).arg(&source);
        assert!(compiler.status().unwrap().success(), "{compiler:?}");
        let said = Command::new(program).output().unwrap().stdout;
        let said = String::from_utf8(said).unwrap();
        said.lines().map(|line| line.parse().unwrap()).collect()
    }

    macro_rules! layout {
        ($($theirs:literal $ours:ident { $($name:literal $field:ident,)* })*) => {{
            let mut expressions = Vec::new();
            let mut expected = Vec::new();
            $(
                expressions.push(format!("sizeof({})", $theirs));
                expected.push(size_of::<$ours>());
                $(
                    expressions.push(format!("offsetof({}, {})", $theirs, $name));
                    expected.push(offset_of!($ours, $field));
                )*
            )*
            (expressions, expected)
        }};
    }

    #[test]
    fn the_header_says_the_same() {
        let (mut expressions, mut expected) = layout! {
            "millpond_option" Option { "key" key, "value" value, }
            "millpond_init" InitArguments {
                "struct_bytes" struct_bytes, "path" path, "options" options, "options_count" options_count,
            }
            "millpond_port" Port {
                "struct_bytes" struct_bytes, "name" name, "type" element_type, "rank" rank, "shape" shape,
            }
            "millpond_signature" Signature {
                "struct_bytes" struct_bytes, "flags" flags, "inputs_count" inputs_count,
                "outputs_count" outputs_count, "inputs" inputs, "outputs" outputs,
            }
            "millpond_tensor" Tensor {
                "struct_bytes" struct_bytes, "type" element_type, "rank" rank, "shape" shape, "data" data,
                "data_bytes" data_bytes, "ends" ends, "ends_count" ends_count,
            }
            "millpond_plugin" Plugin {
                "abi" abi, "struct_bytes" struct_bytes, "init" init, "signature" signature, "free_model" free_model,
                "create" create, "run" run, "destroy" destroy, "last_error" last_error,
            }
        };
        let mut number = |name: &str, number: usize| {
            expressions.push(name.to_owned());
            expected.push(number);
        };
        number("MILLPOND_BATCHED", BATCHED as usize);
        number("MILLPOND_INLINE", INLINE as usize);
        number("MILLPOND_PORTS_MAX", PORTS_MAX);
        number("MILLPOND_RANK_MAX", RANK_MAX);
        number("MILLPOND_NAME_BYTES_MAX", NAME_BYTES_MAX);
        for &element_type in ElementType::ALL {
            let name = format!("MILLPOND_{}", element_type.as_str().to_uppercase());
            number(&name, number_of(element_type) as usize);
        }
        let found = in_c(&expressions);
        for ((expression, expected), found) in expressions.iter().zip(&expected).zip(&found) {
            assert_eq!(expected, found, "{expression}");
        }
        assert_eq!(found.len(), expected.len());
    }
}
