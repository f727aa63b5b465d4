// The text and its translation: one object that all parts of the page read, and events when it changes.

import { reused, targetOf } from "./segments.js";

class Passage extends EventTarget {
  text = "";
  segments = [];
  glossary = new Map(); // source term → list of translations
  lostWordings = []; // what the user wrote for sentences that are no longer there

  /** Returns which segments belong to the text as it is now. */
  get reused() {
    return reused(this.segments, this.text);
  }

  /** Returns the length of the text as the service counts it: in code points. */
  get numCharacters() {
    return /[\ud800-\udbff]/.test(this.text) ? this.text.length - this.text.match(/[\ud800-\udbff]/g).length : this.text.length;
  }

  get isEdited() {
    return this.segments.some((each) => each.isEdited || each.targetGap !== each.ownGap);
  }

  get translation() {
    return targetOf(this.segments);
  }

  /** Returns whether all segments belong to the text as it is now. */
  get isCurrent() {
    const { head, tail, start, end } = this.reused;
    return head + tail === this.segments.length && start >= end;
  }

  /** Informs all parts that the texts have changed. */
  changed() {
    this.dispatchEvent(new Event("change"));
  }

  /** Yields each segment with the offsets of its gap, of its beginning and of its end in the translation. */
  *places() {
    let at = 0;
    for (const segment of this.segments) {
      const start = at + segment.targetGap.length;
      const end = start + segment.text.length;
      yield { segment, at, start, end };
      at = end;
    }
  }

  /** Returns the place of the segment at an offset of the translation; between two, that of the first. */
  placeAt(offset) {
    let last;
    for (const place of this.places()) {
      if (last && offset < place.start) return last;
      if (offset <= place.end) return place;
      last = place;
    }
    return last;
  }

  placeOf(segment) {
    return [...this.places()].find((place) => place.segment === segment);
  }

  /** Returns whether the user took away the white space between a segment and what follows it. */
  isJoined(segment) {
    const next = this.segments.slice(this.segments.indexOf(segment) + 1).find(({ text, targetGap }) => text || targetGap);
    return next !== undefined && next.ownGap !== "" && next.targetGap === "";
  }

  /** Keeps what the user wrote for a segment that is about to go. */
  setAside(segment) {
    if (!segment.isEdited) return;
    this.lostWordings = [...this.lostWordings.slice(-4), segment.text];
    Object.assign(segment, { fixed: 0, isEdited: false, ownSpans: [] });
  }

  /** Returns the fields that every request for a translation has. */
  requestFields(source, target) {
    const glossary = Object.fromEntries(this.glossary);
    return this.glossary.size ? { source, target, glossary } : { source, target };
  }
}

export const passage = new Passage();
