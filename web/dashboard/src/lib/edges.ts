import type { Attachment } from 'svelte/attachments';

/** hidden returns on which sides of a box there is more than can be seen. */
export function hidden(left: number, visible: number, whole: number): { before: boolean; after: boolean } {
  const tolerance = 1; // of fractions of a pixel
  return { before: left > tolerance, after: left + visible < whole - tolerance };
}

/** edges marks the parent of a box that scrolls to the sides with data-before and data-after while there is more on that side. */
export const edges: Attachment<HTMLElement> = (box) => {
  const frame = box.parentElement;
  if (!frame) return;
  const mark = (): void => {
    const { before, after } = hidden(box.scrollLeft, box.clientWidth, box.scrollWidth);
    frame.toggleAttribute('data-before', before);
    frame.toggleAttribute('data-after', after);
  };
  const resized = new ResizeObserver(mark);
  resized.observe(box);
  if (box.firstElementChild) resized.observe(box.firstElementChild);
  box.addEventListener('scroll', mark, { passive: true });
  mark();
  return () => {
    resized.disconnect();
    box.removeEventListener('scroll', mark);
  };
};
