//! Files in the input of a request: `input_file`, `input_image` and `file` parts with the `file_id` of an upload, and
//! `input_file` and `file` parts with the file itself, which is uploaded.

use super::error::OpenAiError;
use super::files;
use super::stored_file::{self, StoredFile};
use crate::http::App;
use crate::http::problem::ApiError;
use crate::mcp::with_files;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use coracle_engine::content_type;
use coracle_models::{Item, Part};
use coracle_runs::{InputOptions, QueuedFile};
use coracle_types::UserId;
use serde_json::{Value, json};

/// Maximum number of references in one request.
const MAX_REFERENCES: usize = 100;
/// Maximum size of the images in one request that are read from files, in bytes.
const MAX_IMAGE_BYTES: u64 = 16 << 20;

/// Whether files that a request contains may be written into the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InlineFiles {
    /// They are uploaded.
    Kept,
    /// They are refused, because nothing of the request may be stored.
    Refused,
}

/// Where a part refers to a file, or contains one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference<'a> {
    /// An uploaded file, which code reads.
    File(&'a str),
    /// An uploaded image, which the model sees.
    Image(&'a str),
    /// A file in base64, perhaps as a `data:` address.
    Inline { name: &'a str, data: &'a str },
}

/// The reference of a content part, if it is one.
fn reference(part: &Value) -> Option<Reference<'_>> {
    let inner = match part.get("type").and_then(Value::as_str)? {
        "input_image" => return part.get("file_id").and_then(Value::as_str).map(Reference::Image),
        "input_file" => part,
        "file" => part.get("file")?,
        _ => return None,
    };
    let field = |name: &str| inner.get(name).and_then(Value::as_str);
    match field("file_id") {
        Some(id) => Some(Reference::File(id)),
        None => field("file_data").map(|data| Reference::Inline { name: field("filename").unwrap_or_default(), data }),
    }
}

/// What is left of the limits of one request.
struct Left {
    references: usize,
    image_bytes: u64,
}

impl App {
    /// Replaces references to uploaded files in items by parts that a model understands.
    pub(super) async fn resolve_files(
        &self,
        user: &UserId,
        items: &mut [Value],
        inline: InlineFiles,
    ) -> Result<(), OpenAiError> {
        let mut contents = Vec::new();
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            for (name, value) in item {
                if matches!(name.as_str(), "content" | "output") {
                    contents.push(value);
                }
            }
        }
        self.resolve_contents(user, contents, inline).await
    }

    /// The same for contents: each is a text, or a list of parts.
    pub(super) async fn resolve_contents(
        &self,
        user: &UserId,
        contents: Vec<&mut Value>,
        inline: InlineFiles,
    ) -> Result<(), OpenAiError> {
        let frontend = self.frontend.of_user(user);
        let mut left = Left { references: MAX_REFERENCES, image_bytes: MAX_IMAGE_BYTES };
        for content in contents {
            for part in content.as_array_mut().into_iter().flatten() {
                let Some(reference) = reference(part) else { continue };
                left.references = left.references.checked_sub(1).ok_or_else(|| {
                    OpenAiError::invalid(format!("the request has more than {MAX_REFERENCES} references to files"))
                })?;
                *part = match reference {
                    Reference::File(id) => text(&stored_file::find(&frontend, id).await?),
                    Reference::Image(id) => {
                        let file = stored_file::find(&frontend, id).await?;
                        self.image(user, &file, &mut left.image_bytes).await?
                    }
                    Reference::Inline { .. } if inline == InlineFiles::Refused => {
                        let message = "cannot be used in a request that is not stored, because the file would be \
                                       written into the workspace; upload it to /v1/files, or set `store`";
                        return Err(OpenAiError::parameter("file_data", message));
                    }
                    Reference::Inline { name, data } => text(&files::store(&frontend, name, decoded(data)?).await?),
                };
            }
        }
        Ok(())
    }

    /// Uploaded files as parts that a model understands. Each one has an ID, and whether the model also sees its image.
    pub(crate) async fn file_parts(&self, user: &UserId, files: &[(&str, bool)]) -> Result<Vec<Part>, ApiError> {
        let frontend = self.frontend.of_user(user);
        let mut left = MAX_IMAGE_BYTES;
        let mut content = Vec::new();
        for (id, is_shown) in files {
            let file = stored_file::find(&frontend, id).await?;
            content.push(text(&file));
            if *is_shown {
                content.push(self.image(user, &file, &mut left).await?);
            }
        }
        let message = json!([{"role": "user", "content": content}]);
        let items = self.runs.read_input(user, &message, InputOptions { allows_image_urls: false }).await?;
        let parts = items.into_iter().filter_map(|item| match item {
            Item::User { parts } => Some(parts),
            Item::System { .. } | Item::Assistant { .. } | Item::Reasoning { .. } | Item::Call(_) | Item::Result(_) => {
                None
            }
        });
        Ok(parts.flatten().collect())
    }

    /// The names and sizes of uploaded files.
    pub(crate) async fn queued_files(
        &self,
        user: &UserId,
        files: &[(&str, bool)],
    ) -> Result<Vec<QueuedFile>, ApiError> {
        let frontend = self.frontend.of_user(user);
        let mut found = Vec::new();
        for (id, is_shown) in files {
            let StoredFile { id, name, bytes, .. } = stored_file::find(&frontend, id).await?;
            found.push(QueuedFile { id, name, bytes, is_shown: *is_shown });
        }
        Ok(found)
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

/// The content of a file that a request contains.
fn decoded(data: &str) -> Result<Bytes, OpenAiError> {
    let coded = match data.strip_prefix("data:") {
        Some(address) => address.split_once(";base64,").map(|(_, coded)| coded),
        None => Some(data),
    };
    let bytes = coded.and_then(|coded| STANDARD.decode(coded.trim_end()).ok());
    bytes.map(Bytes::from).ok_or_else(|| OpenAiError::parameter("file_data", "must be base64, or `data:…;base64,…`"))
}

/// What a model has to know about a file.
fn text(file: &StoredFile) -> Value {
    let (name, bytes, path) = (&file.name, file.bytes, file.path_for_code());
    let text = format!("[The user has uploaded the file {name:?} ({bytes} bytes). Code can read it at {path:?}.]");
    json!({"type": "text", "text": text})
}
