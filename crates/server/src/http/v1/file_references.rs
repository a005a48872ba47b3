//! Uploaded files in the input of a request: `input_file`, `input_image` and `file` parts with a `file_id`.

use super::error::OpenAiError;
use super::stored_file::{self, StoredFile};
use crate::http::App;
use crate::http::problem::ApiError;
use crate::mcp::with_files;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_engine::content_type;
use coracle_types::UserId;
use serde_json::{Value, json};

/// Maximum number of references in one request.
const MAX_REFERENCES: usize = 100;
/// Maximum size of the images in one request that are read from files, in bytes.
const MAX_IMAGE_BYTES: u64 = 16 << 20;

/// Where a part refers to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference {
    /// A file, which code reads.
    File,
    /// An image, which the model sees.
    Image,
}

/// The reference of a content part, if it is one.
fn reference(part: &Value) -> Option<(Reference, &str)> {
    let id = |pointer: &str| part.pointer(pointer).and_then(Value::as_str);
    match part.get("type").and_then(Value::as_str)? {
        "input_file" => id("/file_id").map(|id| (Reference::File, id)),
        "file" => id("/file/file_id").map(|id| (Reference::File, id)),
        "input_image" => id("/file_id").map(|id| (Reference::Image, id)),
        _ => None,
    }
}

/// What is left of the limits of one request.
struct Left {
    references: usize,
    image_bytes: u64,
}

impl App {
    /// Replaces references to uploaded files in items by parts that a model understands.
    pub(super) async fn resolve_files(&self, user: &UserId, items: &mut [Value]) -> Result<(), OpenAiError> {
        let mut contents = Vec::new();
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            for (name, value) in item {
                if matches!(name.as_str(), "content" | "output") {
                    contents.push(value);
                }
            }
        }
        self.resolve_contents(user, contents).await
    }

    /// The same for contents: each is a text, or a list of parts.
    pub(super) async fn resolve_contents(&self, user: &UserId, contents: Vec<&mut Value>) -> Result<(), OpenAiError> {
        let mut left = Left { references: MAX_REFERENCES, image_bytes: MAX_IMAGE_BYTES };
        for content in contents {
            for part in content.as_array_mut().into_iter().flatten() {
                let Some((kind, id)) = reference(part) else { continue };
                left.references = left.references.checked_sub(1).ok_or_else(|| {
                    OpenAiError::invalid(format!("the request has more than {MAX_REFERENCES} references to files"))
                })?;
                let file = stored_file::find(&self.frontend.of_user(user), id).await?;
                *part = match kind {
                    Reference::File => text(&file),
                    Reference::Image => self.image(user, &file, &mut left.image_bytes).await?,
                };
            }
        }
        Ok(())
    }

    async fn image(&self, user: &UserId, file: &StoredFile, left: &mut u64) -> Result<Value, ApiError> {
        if file.bytes > *left {
            let message = format!("the images of one request can have {MAX_IMAGE_BYTES} bytes at most");
            return Err(ApiError::too_large(message));
        }
        let (path, most) = (file.path(), *left);
        let (_, bytes) = with_files(&self.frontend.of_user(user), move |files| files.read(&path, most)).await?;
        *left = left.saturating_sub(bytes.len() as u64);
        let mime = content_type(&file.name, &bytes, true);
        if !mime.starts_with("image/") {
            return Err(ApiError::invalid(format!("the file `{}` is not an image", file.id)));
        }
        Ok(json!({"type": "input_image", "image_url": format!("data:{mime};base64,{}", STANDARD.encode(bytes))}))
    }
}

/// What a model has to know about a file.
fn text(file: &StoredFile) -> Value {
    let (name, bytes, path) = (&file.name, file.bytes, file.path_for_code());
    let text = format!("[The user has uploaded the file {name:?} ({bytes} bytes). Code can read it at {path:?}.]");
    json!({"type": "text", "text": text})
}
