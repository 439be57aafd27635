//! What the scenarios of report R4 find in the place of what examples/r4 makes: the same pipelines over small models and small images.
//! Its invariant: what is expected is what a server of these pipelines answers.

use std::path::Path;

use serde_json::{Value, json};

use super::place::Place;
use crate::harness::{Millpond, data};

impl Place {
    /// The pipelines of report R4 over small models and small images, with requests and what a server answers to them.
    pub fn write_r4(&self) {
        let folder = self.path(".demo/r4");
        for (small, name) in [
            ("shares", "resnet18"),
            ("shares", "resnet50"),
            ("boxes", "finder"),
        ] {
            std::fs::copy(
                data(&format!("{small}.onnx")),
                folder.join(format!("{name}.onnx")),
            )
            .unwrap();
        }
        let text = include_str!("../../examples/r4/r4.toml");
        self.write(".demo/r4/r4.toml", text);
        std::fs::write(folder.join("millpond.toml"), text).unwrap();
        let server = Millpond::start(
            &folder,
            &["server.listen=127.0.0.1:0", "admin.listen=127.0.0.1:0"],
        );
        let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pipelines/tests/data/images");
        let images = ["baseline.jpg", "halves.jpg"].map(|name| images.join(name));
        std::fs::copy(&images[0], folder.join("china.jpg")).unwrap();
        let boxes = json!({"shape": [1, 1, 4], "type": "f32", "data": [0.25, 0.125, 1, 0.75]});
        for name in [
            "decode",
            "resnet50_1",
            "resnet50_4",
            "resnet18",
            "find",
            "classify",
            "chain",
        ] {
            let (mut asked, mut answered) = (String::new(), String::new());
            for image in &images {
                let request = |jpeg: Value| {
                    let mut inputs = json!({"jpeg": jpeg});
                    if name == "classify" {
                        inputs["boxes"] = boxes.clone();
                    }
                    json!({"pipeline": name, "inputs": inputs})
                };
                let (status, answer) = server.call("run", &request(json!(std::fs::read(image).unwrap())));
                assert_eq!(status, 200, "{answer}");
                asked += &format!("{}\n", request(json!({"$file": image})));
                let numbers = numbers(&answer["outputs"]["y"]);
                assert!(numbers.is_array(), "{name}: {answer}");
                answered += &format!("{}\n", json!({"outputs": {"y": numbers}}));
            }
            std::fs::write(folder.join(format!("{name}.jsonl")), asked).unwrap();
            std::fs::write(folder.join(format!("{name}.expected.jsonl")), answered).unwrap();
        }
    }
}

/// The numbers of a tensor, of one whose rows have several items, or of the first of a list.
fn numbers(value: &Value) -> &Value {
    let tensor = value.get("items").or_else(|| value.get(0));
    &tensor.unwrap_or(value)["data"]
}
