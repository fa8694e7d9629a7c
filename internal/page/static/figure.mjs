// What a job has shown besides text, at the place where it was shown.

import { size } from '/format.mjs';

// numberOf returns the number of the display that a line of the log stands for:
// "[figure 1: PNG 640x480, job://ID/display/1]". Only the server writes lines of that stream.
export const numberOf = line => Number(/\/display\/(\d+)\]\s*$/.exec(line)?.[1] ?? 0);

// figure returns the element of display n of a job: a picture, a document in which no script runs, or
// a line. display is what the job's document says of it; a display that was replaced has none.
export function figure(job, n, display, line) {
  const box = document.createElement('figure');
  const address = `/api/jobs/${encodeURIComponent(job)}/display/${n}`;
  const type = display?.served_type ?? '', title = display?.label ?? line;
  if (type.startsWith('image/')) {
    const picture = document.createElement('img');
    Object.assign(picture, { alt: title, src: address });
    box.append(picture);
  } else if (type.startsWith('text/html')) {
    const frame = document.createElement('iframe');
    frame.setAttribute('sandbox', '');
    Object.assign(frame, { title, src: address });
    box.append(frame);
  }
  const caption = document.createElement('figcaption');
  caption.append(title);
  if (display) {
    const link = document.createElement('a');
    Object.assign(link, { href: `${address}?download`, download: '', textContent: `download, ${size(display.size)}`, ariaLabel: `download ${title}` });
    caption.append(' ', link);
  }
  box.append(caption);
  return box;
}
