//! Models whose backend the program around the catalog has: they are loaded, kept over changes and unloaded as others are.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_backends_interface::{Backend, Error, Model};
use millpond_backends_practice::{Behaviour, Practice};
use millpond_catalog::{Given, Handle, ModelSection, Resources, Sections};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A practice model that counts how often it is loaded, and takes no batch of more than 8 rows.
struct Own(Practice, Arc<AtomicUsize>);

impl Backend for Own {
    fn check(&self, at: &str, batch_size_max: usize) -> Result<(), String> {
        match batch_size_max {
            ..=8 => self.0.check(at, batch_size_max),
            more => Err(format!("{at}.batch_size_max is {more}; expected 8 at most")),
        }
    }

    fn load(&self) -> Result<Arc<dyn Model>, Error> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.load()
    }
}

fn section(keys: &str) -> (Result<ModelSection, String>, Arc<AtomicUsize>) {
    let practice = Practice {
        behaviour: Some(Behaviour::Wait),
        us: Some(1),
        ..Practice::default()
    };
    let loads = Arc::new(AtomicUsize::new(0));
    let own = Given::new("own", Own(practice, Arc::clone(&loads)));
    (ModelSection::given(own, toml::from_str(keys).unwrap()), loads)
}

#[test]
fn a_model_of_the_programs_own_is_one_like_others() {
    let (own, loads) = section("version = 3\nbatch_size_max = 4");
    let mut sections = Sections::default();
    sections.models.insert("own".to_owned(), own.unwrap());
    let handle = Handle::open(sections, Resources::default()).unwrap();
    handle.warm().unwrap();
    assert_eq!(handle.pin().models["own"].version, 3);
    // What did not change is shared.
    let practice = "backend = \"practice\"\nbehaviour = \"wait\"\nus = 1";
    handle
        .load_model("other", toml::from_str(practice).unwrap())
        .unwrap();
    assert_eq!(loads.load(Ordering::Relaxed), 1);
    handle.unload_model("own").unwrap();
    assert!(!handle.pin().models.contains_key("own"));
}

#[test]
fn its_keys_are_checked() {
    let refused = |keys: &str| section(keys).0.unwrap_err();
    assert!(
        refused("path = \"x\"")
            .contains("key \"path\" is unknown; expected one of [\"backend\", \"version\"")
    );
    assert!(refused("instances = \"two\"").contains("instances"));
    let own = section("batch_size_max = 9").0.unwrap();
    let expected = "models.m.batch_size_max is 9; expected 8 at most";
    assert_eq!(own.check("models.m"), Err(expected.to_owned()));
}
