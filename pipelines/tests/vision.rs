//! Stages of images and of scores, as requests reach them: by the keys of a configuration, over all items of a request.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_engines_batcher::Batcher;
use millpond_engines_features::Table;
use millpond_engines_ordered::Store;
use millpond_pipelines::{
    Ask, Bytes, Description, Error, Items, Output, Parts, Pipeline, Progress, Value, Values, submit,
};
use millpond_tensor::Tensor;
use std::sync::{Arc, mpsc};

const JPEG: &[u8] = include_bytes!("data/images/baseline.jpg");
const PNG: &[u8] = include_bytes!("data/images/rgb.png");

/// Pipelines of stages alone.
struct Nothing;

impl Parts for Nothing {
    fn table(&self, _: &str) -> Option<Arc<Table>> {
        None
    }

    fn store(&self, _: &str) -> Option<Store> {
        None
    }

    fn model(&self, _: &str) -> Option<Arc<Batcher>> {
        None
    }
}

/// A pipeline of values; each line is a stage: `name = { .. }` and its action.
fn open(stages: &[&str]) -> Result<Arc<Pipeline>, String> {
    let stages: String = stages
        .iter()
        .map(|stage| format!("[[stages]]\n{stage}\n"))
        .collect();
    let description: Description =
        toml::from_str(&format!("request = \"values\"\n{stages}")).map_err(|error| error.to_string())?;
    let plan = description.plan("p").map_err(|error| error.to_string())?;
    let pipeline = Pipeline::open(plan, &Nothing).map_err(|error| error.to_string())?;
    Ok(Arc::new(pipeline))
}

fn run(stages: &[&str], inputs: Vec<(&str, Value)>) -> Result<Output, Error> {
    let pipeline = open(stages).unwrap();
    let inputs = inputs.into_iter().map(|(name, value)| (name.to_owned(), value));
    let values = Values {
        inputs: inputs.collect(),
        outputs: Vec::new(),
    };
    match pipeline.run_values(values)? {
        Progress::Done(output) => Ok(output),
        Progress::Waits(waiting) => {
            let ask = Ask {
                source: 1,
                priority: Default::default(),
                deadline: None,
                gone: Arc::default(),
                kept_bytes: 0,
            };
            let (send, done) = mpsc::sync_channel(1);
            let hand_over = |batcher: Arc<Batcher>, request| submit(&batcher, request);
            waiting.start(ask, hand_over, move |output| send.send(output).unwrap());
            done.recv().unwrap()
        }
    }
}

/// The one value that comes out.
fn value(stages: &[&str], inputs: Vec<(&str, Value)>) -> Value {
    let output = run(stages, inputs).unwrap();
    let [(_, value)] = output.values.try_into().unwrap();
    value
}

fn shapes(value: &Value) -> Vec<&[usize]> {
    value.tensors().unwrap().iter().map(Tensor::shape).collect()
}

fn files(files: &[&[u8]]) -> Value {
    let mut bytes = Bytes::with_capacity(files.len(), 0);
    files.iter().for_each(|file| bytes.push(file));
    Value::rows(Items::Bytes(bytes))
}

fn floats(shape: &[usize], floats: &[f32]) -> Value {
    Value::rows(Items::Tensor(
        Tensor::new(shape.to_vec(), floats.to_vec()).unwrap(),
    ))
}

fn texts(texts: &[&str]) -> Value {
    Value::rows(Items::Bytes(texts.iter().collect()))
}

const DECODE: &str = "name = \"page\"\ndecode = { from = \"inputs.page\", color = \"rgb\" }";

#[test]
fn files_become_what_a_model_takes() {
    let resize = "name = \"small\"\nresize = { height = 8, width = 10, filter = \"bilinear\" }";
    let normalise = "name = \"x\"\nnormalise = { mean = [0.5], std = [0.5], layout = \"chw\" }";
    let given = vec![("page", files(&[JPEG, PNG, JPEG]))];
    let made = value(&[DECODE, resize, normalise], given);
    assert_eq!(shapes(&made), [[3, 8, 10]; 3]);
    let all: Vec<f32> = made
        .tensors()
        .unwrap()
        .iter()
        .flat_map(|item| item.f32().unwrap().to_vec())
        .collect();
    assert!(all.iter().all(|sample| (-1.0..=1.0).contains(sample)) && all.iter().any(|sample| *sample > 0.5));
    assert_eq!(made.tensors().unwrap()[0], made.tensors().unwrap()[2]);
    let rest = [
        DECODE,
        "name = \"framed\"\nletterbox = { height = 32, width = 32 }",
        "name = \"gray\"\ncolor = { convert = \"rgb_to_gray\" }",
        "name = \"planes\"\nlayout = { to = \"chw\" }",
    ];
    let made = value(&rest, vec![("page", files(&[PNG]))]);
    assert_eq!(shapes(&made), [[1, 32, 32]]);
    assert_eq!(made.tensors().unwrap()[0].of::<u8>().unwrap()[..32], [114; 32]);
}

#[test]
fn images_keep_their_rows() {
    let mut pages = files(&[PNG, PNG, PNG]);
    pages.offsets = Some(Arc::from([0, 2, 2, 3]));
    let small = "name = \"small\"\nresize = { side_max = 17 }";
    let made = value(&[DECODE, small], vec![("page", pages)]);
    assert_eq!(made.offsets.as_deref(), Some(&[0, 2, 2, 3][..]));
    assert_eq!(shapes(&made), [[10, 17, 3]; 3]);
    let none = value(&[DECODE, small], vec![("page", files(&[]))]);
    assert_eq!(none.tensors(), Ok(&[][..]));
}

#[test]
fn an_image_has_any_number_of_parts() {
    let crop = "name = \"parts\"\ncrop = { from = \"page\", boxes = \"inputs.boxes\" }";
    let boxes = |shape: &[usize], all: &[f32]| ("boxes", floats(shape, all));
    let made = value(
        &[DECODE, crop],
        vec![
            ("page", files(&[PNG])),
            boxes(&[2, 4], &[0.0, 0.0, 5.0, 7.0, 1.0, 1.0, 2.0, 2.0]),
        ],
    );
    assert_eq!(shapes(&made), [[7, 5, 3], [1, 1, 3]]);
    assert_eq!(made.offsets.as_deref(), Some(&[0, 2][..]));
    let corners = [2.0, 2.0, 12.0, 2.0, 12.0, 7.0, 2.0, 7.0];
    let (_, mut several) = boxes(&[3, 4, 2], &corners.repeat(3));
    several.offsets = Some(Arc::from([0, 1, 1, 3]));
    let pages = ("page", files(&[PNG, PNG, PNG]));
    let made = value(&[DECODE, crop], vec![pages, ("boxes", several)]);
    assert_eq!(shapes(&made), [[5, 10, 3]; 3]);
    assert_eq!(made.offsets.as_deref(), Some(&[0, 1, 1, 3][..]));
}

#[test]
fn a_bad_image_is_named_by_stage_and_item() {
    let check = |page: Value, stages: &[&str], expected: &str| {
        let error = run(stages, vec![("page", page)]).unwrap_err();
        assert!(matches!(error, Error::Request { .. }), "{error:?}");
        assert_eq!(error.to_string(), expected);
    };
    check(
        files(&[PNG, b"GIF89a"]),
        &[DECODE],
        "stage \"page\", item 1: not a JPEG or PNG image: begins with 47 49 46 38 39 61 (\"GIF89a\")",
    );
    check(
        files(&[&JPEG[..JPEG.len() - 100]]),
        &[DECODE],
        "stage \"page\", item 0: a JPEG image that ends before its last row; send it whole, or set strict = false",
    );
    let bounded = "name = \"page\"\ndecode = { from = \"inputs.page\", pixels_max = 1000 }";
    check(
        files(&[PNG, PNG]),
        &[bounded],
        "stage \"page\", item 1: a PNG image of 34 × 21 = 714 pixels, and the images before it have 714; 1000 pixels are the limit \
         for all images of a request (pixels_max)",
    );
    let bounded = "name = \"page\"\ndecode = { from = \"inputs.page\", pixels_max = 700 }";
    check(
        files(&[PNG]),
        &[bounded],
        "stage \"page\", item 0: a PNG image of 34 × 21 = 714 pixels; 700 pixels are the limit (pixels_max)",
    );
    check(
        files(&[PNG]),
        &[DECODE, "name = \"rgb\"\ncolor = { convert = \"gray_to_rgb\" }"],
        "stage \"rgb\", item 0: the conversion takes 1 channels and the image has 3",
    );
    let four = [DECODE, "name = \"cut\"\ncrop = { boxes = \"inputs.boxes\" }"];
    let boxes = ("boxes", Value::rows(Items::Tensors(Vec::new())));
    let error = run(&four, vec![("page", files(&[PNG])), boxes]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "stage \"cut\": boxes of 0 images are given for 1 images"
    );
}

#[test]
fn an_array_in_place_of_a_file_is_named_by_type_and_shape() {
    let check = |page: Items, found: &str| {
        let error = run(&[DECODE], vec![("page", Value::rows(page))]).unwrap_err();
        assert!(matches!(error, Error::Request { .. }), "{error:?}");
        let expected = format!(
            "stage \"page\" of pipeline \"p\" takes encoded images by its key decode.from, and this request gives it {found}; \
             give the bytes of a JPEG or PNG file, in Python a `bytes` object (array.tobytes() of an array of uint8), or a list of them"
        );
        assert_eq!(error.to_string(), expected);
    };
    let file = || Tensor::new(vec![PNG.len()], PNG.to_vec()).unwrap();
    let pixels = || Tensor::new(vec![1, 2, 3], vec![0_u8; 6]).unwrap();
    let texts: Bytes = ["a", "b"].into_iter().collect();
    check(Items::Tensor(file()), &format!("u8[{}]", PNG.len()));
    check(Items::Tensor(Tensor::new(vec![2], texts).unwrap()), "bytes[2]");
    check(Items::Tensors(vec![pixels()]), "a list of one tensor u8[1, 2, 3]");
    check(
        Items::Tensors(vec![pixels(), file()]),
        "2 tensors, the first u8[1, 2, 3]",
    );
    check(Items::Tensors(Vec::new()), "no tensors");
    check(Items::Keys(vec![1]), "keys");
}

#[test]
fn scores_become_answers() {
    let softmax = "name = \"p\"\nsoftmax = { from = \"inputs.x\" }";
    let given = || vec![("x", floats(&[2, 2], &[0.0, 0.0, 9.0, 9.0]))];
    assert_eq!(
        value(&[softmax], given()).tensor().unwrap().f32(),
        Some(&[0.5; 4][..])
    );
    let sigmoid = "name = \"p\"\nsigmoid = { from = \"inputs.x\" }";
    assert_eq!(
        value(&[sigmoid], given()).tensor().unwrap().f32().unwrap()[..2],
        [0.5; 2]
    );
    let best = "name = \"best\"\ntopk = { from = \"inputs.x\", k = 1 }";
    let places = "name = \"shares\"\nsoftmax = { from = \"best.values\" }";
    let x = floats(&[2, 3], &[0.1, 0.9, 0.5, 7.0, 1.0, 2.0]);
    let output = run(&[best, places], vec![("x", x)]).unwrap();
    let shares = output
        .values
        .iter()
        .find(|(name, _)| **name == *"shares")
        .unwrap();
    let shares = shares.1.tensor().unwrap();
    assert_eq!((shares.shape(), shares.f32()), (&[2, 1][..], Some(&[1.0; 2][..])));
    let refused = open(&[best]).err().unwrap();
    assert!(
        refused.contains("read them by name: best.indices, best.values"),
        "{refused}"
    );
}

#[test]
fn boxes_that_overlap_are_suppressed_image_by_image() {
    let nms =
        "name = \"kept\"\nnms = { boxes = \"inputs.boxes\", scores = \"inputs.scores\", overlap_max = 0.5 }";
    let edges = [0.0, 0.0, 10.0, 10.0, 1.0, 1.0, 10.0, 10.0, 20.0, 20.0, 25.0, 25.0];
    let boxes = ("boxes", floats(&[2, 3, 4], &edges.repeat(2)));
    let scores = ("scores", floats(&[2, 3], &[0.5, 0.9, 0.6, 0.1, 0.1, 0.3]));
    let made = value(&[nms], vec![boxes, scores]);
    assert_eq!(shapes(&made), [[2, 6], [1, 6]]);
    assert_eq!(
        made.tensors().unwrap()[0].f32().unwrap(),
        [1.0, 1.0, 10.0, 10.0, 0.9, 0.0, 20.0, 20.0, 25.0, 25.0, 0.6, 0.0]
    );
    // And what is kept is cut out.
    let crop = "name = \"parts\"\ncrop = { from = \"page\", boxes = \"kept\" }";
    let boxes = ("boxes", floats(&[3, 4], &edges));
    let scores = ("scores", floats(&[3], &[0.5, 0.9, 0.6]));
    let made = value(&[DECODE, nms, crop], vec![("page", files(&[PNG])), boxes, scores]);
    assert_eq!(shapes(&made), [[9, 9, 3], [1, 5, 3]]);
}

#[test]
fn texts_are_found_and_cut_out() {
    let find = "name = \"texts\"\ntext_boxes = { from = \"inputs.maps\", images = \"page\", unclip = 0.5 }";
    // A map of 17 × 10 pixels for an image of 34 × 21: in one a text of 9 × 5 pixels, in the other none.
    let is_text = |at: usize| (3..12).contains(&(at % 17)) && (2..7).contains(&(at / 17));
    let text = (0..170).map(|at| if is_text(at) { 0.9 } else { 0.0 });
    let floats_of_two: Vec<f32> = text.chain([0.0; 170]).collect();
    let maps = || ("maps", floats(&[2, 1, 10, 17], &floats_of_two));
    let pages = || ("page", files(&[PNG, PNG]));
    let found = value(&[DECODE, find], vec![pages(), maps()]);
    assert_eq!(shapes(&found), [[1, 4, 2], [0, 4, 2]]);
    // Its sides of 8 and 4 grow by 0.5 × 32 / 24 each way; a pixel of the map is 2 × 2.1 of the image.
    let corners = [5.0, 3.0, 23.0, 3.0, 23.0, 14.0, 5.0, 14.0];
    assert_eq!(found.tensors().unwrap()[0].f32(), Some(&corners[..]));
    let crop = "name = \"parts\"\ncrop = { from = \"page\", boxes = \"texts\" }";
    let parts = value(&[DECODE, find, crop], vec![pages(), maps()]);
    assert_eq!(shapes(&parts), [[11, 18, 3]]);
    assert_eq!(parts.offsets.as_deref(), Some(&[0, 1, 1][..]));
    let error = run(&[DECODE, find], vec![("page", files(&[PNG])), maps()]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "stage \"texts\", item 0: text_boxes takes one map [height, width] of an image, not [2, 1, 10, 17]"
    );
}

#[test]
fn templates_are_filled_with_texts() {
    let template = "name = \"prompt\"\ntemplate = { text = \"{inputs.kind}: {inputs.title}!\" }";
    let given = vec![
        ("kind", texts(&["film"])),
        ("title", texts(&["Solaris", "Stalker"])),
    ];
    let expected: Bytes = ["film: Solaris!", "film: Stalker!"].into_iter().collect();
    assert_eq!(value(&[template], given).bytes(), Ok(&expected));
    let given = vec![("kind", texts(&["a", "b", "c"])), ("title", texts(&["x", "y"]))];
    let error = run(&[template], given).unwrap_err();
    assert_eq!(
        error.to_string(),
        "stage \"prompt\": it gets 3 texts and 2; give all as many, or one"
    );
}

#[test]
fn an_input_that_is_written_as_a_stage_is_named_with_what_there_is() {
    let check = |stages: &[&str], expected: &str| {
        assert_eq!(open(stages).err().unwrap(), format!("pipeline `p`, {expected}"));
    };
    let prompt = "name = \"prompt\"\ntemplate = { text = \"to {data}\" }";
    check(
        &[prompt],
        "stage `prompt`, key `template.text`: no stage is called `data`; write `inputs.data` for an input of the request, \
         or put a stage that gives texts before this one and name it",
    );
    let first = "name = \"first\"\ntemplate = { text = \"{inputs.data}\" }";
    check(
        &[first, prompt],
        "stage `prompt`, key `template.text`: no stage is called `data`; write `inputs.data` for an input of the request, \
         or name a stage that gives texts: `first`",
    );
    let page = "name = \"page\"\ndecode = { from = \"input.page\" }";
    check(
        &[page],
        "stage `page`, key `decode.from`: no stage is called `input`; write `inputs.NAME` for an input of the request, \
         or put a stage that gives texts before this one and name it",
    );
    let inputs = "[inputs]\ntitle = \"texts\"\npage = \"bytes\"\nx = { type = \"f32\" }";
    check(
        &[&format!("{prompt}\n{inputs}")],
        "stage `prompt`, key `template.text`: no stage is called `data`; write an input of the request: `inputs.page`, \
         `inputs.title`, or put a stage that gives texts before this one and name it",
    );
}

fn check_refused(stage: &str, expected: &str) {
    let refused = open(&[&format!("name = \"s\"\n{stage}")]).err().unwrap();
    assert!(refused.contains(expected), "{refused}");
}

#[test]
fn descriptions_that_cannot_be_meant_are_refused() {
    check_refused(
        "decode = { pixels_max = 0 }",
        "stage `s`, key `decode.pixels_max`: it is 0",
    );
    check_refused("decode = { colour = \"rgb\" }", "colour");
    check_refused("decode = { color = \"hsv\" }", "hsv");
    check_refused(
        "resize = {}",
        "key `resize`: it says no size; write height and width, or one of short_side",
    );
    check_refused("resize = { height = 0 }", "key `resize.height`: it is 0");
    check_refused(
        "resize = { height = 4, keep_ratio = true }",
        "it needs height and width",
    );
    check_refused(
        "resize = { height = 4, short_side = 4 }",
        "it is 4 beside a height or a width",
    );
    check_refused("letterbox = { height = 4 }", "it says no frame");
    check_refused("normalise = { mean = [123.7], std = [58.4] }", "set scale = 1.0");
    check_refused("normalise = { mean = [nan] }", "no finite number");
    check_refused(
        "crop = { boxes = \"inputs.b\", tall_ratio = 0.0 }",
        "it is not above 0",
    );
    check_refused("crop = { boxes = \"b\" }", "no stage is called `b`");
    check_refused("topk = { k = 0 }", "key `topk.k`: it is 0");
    check_refused(
        "nms = { boxes = \"inputs.b\", scores = \"inputs.s\", overlap_max = 2.0 }",
        "it is 2",
    );
    check_refused(
        "text_boxes = { from = \"inputs.m\", images = \"inputs.i\", threshold = 1.5 }",
        "key `text_boxes.threshold`: it is 1.5",
    );
    check_refused(
        "text_boxes = { from = \"inputs.m\", images = \"inputs.i\", unclip = -1.0 }",
        "key `text_boxes.unclip`: it is -1",
    );
    check_refused(
        "text_boxes = { from = \"inputs.m\", images = \"inputs.i\", items_max = 0 }",
        "key `text_boxes.items_max`: it is 0",
    );
    check_refused("template = { text = \"hello\" }", "there is no field in it");
    check_refused(
        "template = { text = \"{user.id}\" }",
        "`user.id` is not in the request of this pipeline",
    );
    check_refused(
        "template = { text = \"{inputs.a\" }",
        "a brace without its partner",
    );
    check_refused("softmax = {}\ninstances = 2", "it has no threads of its own");
}
