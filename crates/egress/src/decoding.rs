//! Content codings of responses that must be read to remove secrets from them.

use std::io::{self, Write as _};
use std::mem;

use flate2::write::{MultiGzDecoder, ZlibDecoder};

/// Bytes that are decoded at once. They become at most about a thousand times as many.
const PIECE: usize = 1024;
/// Bytes that are taken at once where they stay as many.
const IDENTITY_PIECE: usize = 64 * 1024;

/// Decodes a body piece by piece.
pub(crate) enum Decoding {
    Identity,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Deflate(Box<ZlibDecoder<Vec<u8>>>),
}

impl Decoding {
    /// A decoder for the value of `content-encoding`. `None` if the coding is not known. Requests ask for no coding, so
    /// this is for servers that do not care.
    pub(crate) fn of(coding: &str) -> Option<Self> {
        match coding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Some(Self::Identity),
            "gzip" | "x-gzip" => Some(Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))),
            "deflate" => Some(Self::Deflate(Box::new(ZlibDecoder::new(Vec::new())))),
            _ => None,
        }
    }

    /// The maximum size of a piece, so that what becomes of it fits into memory.
    pub(crate) fn piece(&self) -> usize {
        match self {
            Self::Identity => IDENTITY_PIECE,
            Self::Gzip(_) | Self::Deflate(_) => PIECE,
        }
    }

    /// Decodes a piece of at most `piece()` bytes.
    pub(crate) fn push(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity => Ok(piece.to_vec()),
            Self::Gzip(decoder) => {
                decoder.write_all(piece)?;
                Ok(mem::take(decoder.get_mut()))
            }
            Self::Deflate(decoder) => {
                decoder.write_all(piece)?;
                Ok(mem::take(decoder.get_mut()))
            }
        }
    }

    /// Returns the rest, and fails if the body is cut off.
    pub(crate) fn finish(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity => Ok(Vec::new()),
            Self::Gzip(decoder) => {
                decoder.try_finish()?;
                Ok(mem::take(decoder.get_mut()))
            }
            Self::Deflate(decoder) => {
                decoder.try_finish()?;
                Ok(mem::take(decoder.get_mut()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Decoding;
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use std::io::Write as _;

    fn decoded(coding: &str, body: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut decoding = Decoding::of(coding).unwrap();
        let mut whole = Vec::new();
        for piece in body.chunks(3) {
            whole.extend(decoding.push(piece)?);
        }
        whole.extend(decoding.finish()?);
        Ok(whole)
    }

    #[test]
    fn codings_are_decoded_in_pieces() {
        let text = b"hello hello hello".repeat(100);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(&text).unwrap();
        assert_eq!(decoded("GZip", &gzip).unwrap(), text);
        assert_eq!(decoded("deflate", &zlib.finish().unwrap()).unwrap(), text);
        assert_eq!(decoded("identity", &text).unwrap(), text);
        assert!(decoded("gzip", &gzip[..gzip.len() - 9]).is_err());
        assert!(decoded("gzip", b"no gzip at all").is_err());
    }

    #[test]
    fn unknown_codings_are_not_guessed() {
        assert!(Decoding::of("br").is_none());
        assert!(Decoding::of("gzip, gzip").is_none());
    }
}
