// Messages of the user, with files of the workspace and images.

export type SentFile = {
  name: string;
  bytes: number;
  /** ID of the upload. An item of the server has none. */
  id?: string;
  /** What the model was told about the file. */
  note?: string;
  /** Whether the model gets the file as an image. */
  isShown?: boolean;
};

export type Message = { text: string; files: SentFile[]; images: string[] };

export const plain = (text: string): Message => ({ text, files: [], images: [] });

/** Images that the page shows without asking another server. */
export const isOwnImage = (address: string): boolean => /^data:image\/(?:png|jpeg|gif|webp);base64,/.test(address);

/** The content of a message, as the API takes it. */
export function contentOf({ text, files, images }: Message): object[] {
  const parts: object[] = text ? [{ type: 'input_text', text }] : [];
  for (const { id, note, isShown } of files) {
    if (id) parts.push({ type: 'input_file', file_id: id });
    else if (note) parts.push({ type: 'input_text', text: note });
    if (id && isShown) parts.push({ type: 'input_image', detail: 'auto', file_id: id });
  }
  for (const image of images.filter(isOwnImage)) parts.push({ type: 'input_image', detail: 'auto', image_url: image });
  return parts;
}

/** A message for a run that is under way, as the API takes it. */
export function steeringOf({ text, files }: Message): object {
  const uploads = files.flatMap(({ id, isShown }) => (id ? [{ id, is_shown: isShown === true }] : []));
  return { text, ...(uploads.length > 0 ? { files: uploads } : {}) };
}

/** Whether two messages say the same, and are about files with the same names. */
export const isSame = (one: Message, other: Message): boolean =>
  one.text === other.text &&
  one.files.length === other.files.length &&
  one.files.every((file, index) => file.name === other.files[index]?.name);

/** What the server writes in place of an uploaded file. */
const NOTE = /^\[The user has uploaded the file ("(?:[^"\\]|\\.)*") \((\d+) bytes\)\. Code can read it at "(?:[^"\\]|\\.)*"\.\]$/;

/** The file that a part of a message is about; `null` if it is ordinary text. */
function fileOf(text: string): SentFile | null {
  const found = NOTE.exec(text);
  if (!found?.[1]) return null;
  return { name: found[1].slice(1, -1).replace(/\\(["'\\])/g, '$1'), bytes: Number(found[2]), note: text };
}

/** The message in the content of an item. */
export function messageIn(content: { text?: string; image_url?: string }[]): Message {
  const message: Message = { text: '', files: [], images: [] };
  for (const { text, image_url: image } of content) {
    const file = text ? fileOf(text) : null;
    if (file) message.files.push(file);
    else if (text) message.text += text;
    if (image && isOwnImage(image)) message.images.push(image);
  }
  return message;
}
