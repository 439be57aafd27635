//! What runs a model's operators: the providers that its section names, with their options, and the devices that it is spread over.
//!
//! It loads nothing. Its invariant: a session has all providers that are named, in their order, each with the options that stand there
//! and with the number of the session's device.

use crate::options;
use crate::settings::OnnxRuntime;
use ort::ep::{self, ArbitrarilyConfigurableExecutionProvider, ExecutionProviderDispatch};
use serde::Deserialize;

/// An execution provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// The processor; always there, and behind all others.
    Cpu,
    /// NVIDIA's GPUs.
    Cuda,
    /// NVIDIA's GPUs, by graphs that TensorRT builds.
    TensorRt,
    /// Intel's devices.
    OpenVino,
}

/// The option by which CUDA and TensorRT know a device.
const DEVICE: &str = "device_id";

impl Provider {
    /// What the configuration calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Provider::Cpu => "cpu",
            Provider::Cuda => "cuda",
            Provider::TensorRt => "tensorrt",
            Provider::OpenVino => "openvino",
        }
    }

    /// Whether it runs on NVIDIA's devices, which have numbers and copy from pinned memory.
    fn is_nvidia(self) -> bool {
        matches!(self, Provider::Cuda | Provider::TensorRt)
    }
}

impl OnnxRuntime {
    /// The providers but for the processor, which is behind them anyway.
    pub(crate) fn accelerators(&self) -> impl Iterator<Item = Provider> + '_ {
        let providers = self.providers.iter().flatten().copied();
        providers.filter(|provider| *provider != Provider::Cpu)
    }

    fn has_nvidia(&self) -> bool {
        self.accelerators().any(Provider::is_nvidia)
    }

    /// The devices that instances are spread over; one without a number where the section names none.
    pub(crate) fn places(&self) -> Vec<Option<u16>> {
        match &self.devices {
            Some(devices) => devices.iter().copied().map(Some).collect(),
            None => vec![None],
        }
    }

    /// Whether runs bind their inputs and outputs. Where the section does not say: never, since plain runs were no slower (docs/performance.md).
    pub(crate) fn binds(&self) -> bool {
        self.io_binding.unwrap_or(false)
    }

    /// The device whose pinned memory a session of that place uses, if it has one.
    pub(crate) fn pinned(&self, place: Option<u16>) -> Option<i32> {
        let nvidia = self.accelerators().find(|provider| provider.is_nvidia())?;
        let of_options = || {
            let options = self.provider_options.get(&nvidia)?;
            options.get(DEVICE)?.to_string().parse().ok()
        };
        Some(place.map(i32::from).or_else(of_options).unwrap_or(0))
    }

    /// The options of a provider in a session of that place.
    fn options_of(&self, provider: Provider, place: Option<u16>) -> Vec<(String, String)> {
        let given = self.provider_options.get(&provider).into_iter().flatten();
        let given = given.map(|(key, value)| (key.clone(), value.to_string()));
        let device = place.filter(|_| provider.is_nvidia());
        let device = device.map(|device| (DEVICE.to_owned(), device.to_string()));
        given.chain(device).collect()
    }

    /// The provider, as a session of that place asks for it; nothing for the processor.
    pub(crate) fn dispatch(
        &self,
        provider: Provider,
        place: Option<u16>,
    ) -> Option<ExecutionProviderDispatch> {
        let options = self.options_of(provider, place);
        macro_rules! configured {
            ($provider:expr) => {
                options
                    .iter()
                    .fold($provider, |built, (key, value)| {
                        built.with_arbitrary_config(key, value)
                    })
                    .build()
            };
        }
        match provider {
            Provider::Cpu => None,
            Provider::Cuda => Some(configured!(ep::CUDA::default())),
            Provider::TensorRt => Some(configured!(ep::TensorRT::default())),
            Provider::OpenVino => Some(configured!(ep::OpenVINO::default())),
        }
    }

    pub(crate) fn check_providers(&self, at: &str) -> Result<(), String> {
        self.check_devices(at)?;
        let Some(providers) = &self.providers else {
            return self.check_provider_options(at, &[Provider::Cpu]);
        };
        if providers.is_empty() {
            return Err(format!("{at}.providers is empty; name \"cpu\", or leave it out"));
        }
        for (place, provider) in providers.iter().enumerate() {
            let name = provider.name();
            if providers[..place].contains(provider) {
                return Err(format!("{at}.providers names {name:?} twice; name it once"));
            }
            if *provider == Provider::Cpu && place + 1 < providers.len() {
                return Err(format!(
                    "{at}.providers names \"cpu\" before others, and it can run everything; name it last"
                ));
            }
        }
        self.check_provider_options(at, providers)
    }

    fn check_devices(&self, at: &str) -> Result<(), String> {
        let Some(devices) = &self.devices else {
            return Ok(());
        };
        if devices.is_empty() {
            return Err(format!(
                "{at}.devices is empty; name a device, as 0, or leave it out"
            ));
        }
        if let Some(twice) = (1..devices.len()).find(|at| devices[..*at].contains(&devices[*at])) {
            return Err(format!(
                "{at}.devices names {} twice; name it once, and set instances for more of them on each device",
                devices[twice]
            ));
        }
        if !self.has_nvidia() {
            return Err(format!(
                "{at}.devices: of the providers only \"cuda\" and \"tensorrt\" have devices by number; add one of them to providers, or leave devices out (\"openvino\" has provider_options.openvino.device_type)"
            ));
        }
        let named = self
            .provider_options
            .iter()
            .find(|(provider, options)| provider.is_nvidia() && options.contains_key(DEVICE));
        match named {
            Some((provider, _)) => Err(format!(
                "{at}.provider_options.{}.{DEVICE} and {at}.devices both name devices; leave one out",
                provider.name()
            )),
            None => Ok(()),
        }
    }

    fn check_provider_options(&self, at: &str, providers: &[Provider]) -> Result<(), String> {
        for (provider, options) in &self.provider_options {
            let name = provider.name();
            let at = format!("{at}.provider_options.{name}");
            if !providers.contains(provider) {
                return Err(format!(
                    "{at}: {name:?} is not in providers; add it there, or leave its options out"
                ));
            }
            if *provider == Provider::Cpu {
                return Err(format!(
                    "{at}: \"cpu\" has no options of its own; see threads and options"
                ));
            }
            for (key, value) in options {
                options::check_text(&at, key, value)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn section(keys: &str) -> OnnxRuntime {
        toml::from_str(keys).unwrap()
    }

    #[test]
    fn a_session_has_the_number_of_its_device() {
        let keys = "providers = [\"tensorrt\", \"cuda\", \"cpu\"]\ndevices = [2, 0]\nprovider_options.cuda.arena = 1";
        let two = section(keys);
        assert_eq!(two.places(), [Some(2), Some(0)]);
        let options = |provider, place| {
            let options = two.options_of(provider, place);
            options
                .into_iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(options(Provider::TensorRt, Some(2)), ["device_id=2"]);
        assert_eq!(options(Provider::Cuda, Some(0)), ["arena=1", "device_id=0"]);
        assert_eq!(options(Provider::Cuda, None), ["arena=1"]);
        assert_eq!((two.pinned(Some(2)), two.pinned(None)), (Some(2), Some(0)));
    }

    #[test]
    fn pinned_memory_is_that_of_the_device_that_is_named() {
        let pinned = |keys: &str| section(keys).pinned(None);
        assert_eq!(pinned(""), None);
        assert_eq!(pinned("providers = [\"openvino\"]"), None);
        assert_eq!(pinned("providers = [\"cuda\"]"), Some(0));
        let three = "providers = [\"cuda\"]\nprovider_options.cuda.device_id = ";
        assert_eq!(pinned(&format!("{three}3")), Some(3));
        assert_eq!(pinned(&format!("{three}\"3\"")), Some(3));
    }

    #[test]
    fn runs_are_bound_where_the_section_says_so_alone() {
        let binds = |keys: &str| section(keys).binds();
        assert!(binds("io_binding = true") && binds("providers = [\"cuda\"]\nio_binding = true"));
        assert!(!binds("providers = [\"tensorrt\", \"cuda\", \"cpu\"]") && !binds("io_binding = false"));
        assert!(!binds("") && !binds("providers = [\"openvino\"]"));
    }
}
