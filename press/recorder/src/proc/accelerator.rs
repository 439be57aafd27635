//! Use and memory of NVIDIA's accelerators, where their library (NVML) is installed.
//!
//! The five functions used keep their C interface over versions (NVIDIA's NVML reference, `nvml.h`), so the library is opened
//! while the program runs and nothing of it is needed to build. Its invariant: where there is no library, no device, or a
//! device that does not tell, there is no figure.
#![allow(unsafe_code)] // A library that is opened at run time is called through the C interface.

use std::ffi::{CStr, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

/// The name under which the driver installs it.
const LIBRARY: &CStr = c"libnvidia-ml.so.1";
/// Devices that are looked at.
const DEVICES_MAX: c_uint = 64;
/// `NVML_SUCCESS`.
const SUCCESS: c_int = 0;

type Device = *mut c_void;

/// `nvmlUtilization_t`, in percent of the time since the driver looked last.
#[repr(C)]
#[derive(Default)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// `nvmlMemory_t`, in bytes.
#[repr(C)]
#[derive(Default)]
struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// What all devices together used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Accelerators {
    /// In percent of one device: two busy ones are 200.
    pub(super) percent: f64,
    /// Memory in use.
    pub(super) memory_bytes: u64,
}

/// The library, opened and initialised for as long as the process lives.
pub(super) struct Nvml {
    devices: Vec<Device>,
    utilization: unsafe extern "C" fn(Device, *mut Utilization) -> c_int,
    memory: unsafe extern "C" fn(Device, *mut Memory) -> c_int,
}

// SAFETY: NVML may be called from any thread, with handles from any other (its reference, "thread safe"); a handle is a
// name and is never looked into here.
unsafe impl Send for Nvml {}
// SAFETY: as above.
unsafe impl Sync for Nvml {}

/// The library of this machine, opened by the first call, which may take a moment.
pub(super) fn nvml() -> Option<&'static Nvml> {
    static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
    NVML.get_or_init(|| Nvml::open(LIBRARY)).as_ref()
}

impl Nvml {
    /// Opens and initialises the library `name`; nothing where it is absent or finds no device.
    fn open(name: &CStr) -> Option<Nvml> {
        // SAFETY: the name ends with a zero byte; what the library does on loading is its driver's business.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return None;
        }
        let symbol = |name: &CStr| {
            // SAFETY: the library is open, and stays so.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            (!found.is_null()).then_some(found)
        };
        let init = symbol(c"nvmlInit_v2")?;
        let count = symbol(c"nvmlDeviceGetCount_v2")?;
        let handle = symbol(c"nvmlDeviceGetHandleByIndex_v2")?;
        let utilization = symbol(c"nvmlDeviceGetUtilizationRates")?;
        let memory = symbol(c"nvmlDeviceGetMemoryInfo")?;
        // SAFETY: these are the signatures that `nvml.h` gives the five names.
        let (init, count, handle, utilization, memory) = unsafe {
            (
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(init),
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_uint) -> c_int>(count),
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_uint, *mut Device) -> c_int>(
                    handle,
                ),
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(Device, *mut Utilization) -> c_int>(
                    utilization,
                ),
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(Device, *mut Memory) -> c_int>(
                    memory,
                ),
            )
        };
        let mut devices_len: c_uint = 0;
        // SAFETY: initialised before anything else, and given a place for the number.
        if unsafe { init() != SUCCESS || count(&raw mut devices_len) != SUCCESS } {
            return None;
        }
        let devices: Vec<Device> = (0..devices_len.min(DEVICES_MAX))
            .filter_map(|index| {
                let mut device: Device = std::ptr::null_mut();
                // SAFETY: the index is below the number of devices, and there is a place for the handle.
                (unsafe { handle(index, &raw mut device) } == SUCCESS).then_some(device)
            })
            .collect();
        (!devices.is_empty()).then_some(Nvml {
            devices,
            utilization,
            memory,
        })
    }

    /// The use of all devices now; nothing when one of them does not tell.
    pub(super) fn read(&self) -> Option<Accelerators> {
        let mut all = Accelerators {
            percent: 0.0,
            memory_bytes: 0,
        };
        for &device in &self.devices {
            let (mut utilization, mut memory) = (Utilization::default(), Memory::default());
            // SAFETY: the handle is the library's, and each has a place for what it writes.
            let (told, told_memory) = unsafe {
                (
                    (self.utilization)(device, &raw mut utilization),
                    (self.memory)(device, &raw mut memory),
                )
            };
            if told != SUCCESS || told_memory != SUCCESS {
                return None;
            }
            all.percent += f64::from(utilization.gpu);
            all.memory_bytes += memory.used;
        }
        Some(all)
    }
}

impl std::fmt::Debug for Nvml {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Nvml({} devices)", self.devices.len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::ffi::CString;
    use std::process::Command;

    /// Two devices, the first busy; `broken` makes the second one silent.
    const LIBRARY_C: &str = r#"
        static int initialised;
        int nvmlInit_v2(void) { initialised = 1; return 0; }
        int nvmlDeviceGetCount_v2(unsigned *count) { *count = DEVICES; return initialised ? 0 : 1; }
        int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(index + 1L); return 0; }
        int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) {
            rates[0] = device == (void *)1L ? 87 : 4; rates[1] = 99; return 0;
        }
        int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
            memory[0] = 1ULL << 40; memory[1] = 5; memory[2] = (1ULL << 33) * (unsigned long)device;
            return device == (void *)2L ? BROKEN : 0;
        }
    "#;

    /// A library with NVML's interface, made by the C compiler.
    fn library(name: &str, devices: u32, broken: u32) -> Option<Nvml> {
        let folder = std::env::temp_dir().join(format!("millpond-nvml-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (source, object) = (folder.join("nvml.c"), folder.join("libnvml.so"));
        std::fs::write(&source, LIBRARY_C).unwrap();
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&object)
            .arg(&source)
            .args([format!("-DDEVICES={devices}"), format!("-DBROKEN={broken}")])
            .status()
            .unwrap();
        assert!(made.success());
        let opened = Nvml::open(&CString::new(object.to_str().unwrap()).unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
        opened
    }

    #[test]
    fn all_devices_are_added_up() {
        let nvml = library("two", 2, 0).unwrap();
        assert_eq!(
            nvml.read(),
            Some(Accelerators {
                percent: 91.0,
                memory_bytes: 3 << 33,
            })
        );
    }

    #[test]
    fn what_does_not_tell_gives_no_figure() {
        assert!(library("none", 0, 0).is_none());
        assert_eq!(library("silent", 2, 3).unwrap().read(), None);
        assert!(Nvml::open(c"libmillpond-is-not-there.so.1").is_none());
        // A library without the functions.
        assert!(Nvml::open(c"libm.so.6").is_none());
    }
}
