const usual = 14; // pixels: the size of the text for which sizes in scripts are meant

/** Scale is how much larger text is than usual: on very wide screens the style sheet enlarges it, and what scripts draw follows. */
class Scale {
  factor = $state(read());

  constructor() {
    window.addEventListener('resize', () => {
      this.factor = read();
    });
  }

  /** px returns a size in pixels that is meant for the usual text. */
  px(size: number): number {
    return Math.round(size * this.factor);
  }
}

function read(): number {
  const size = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
  return Number.isFinite(size) && size > 0 ? size / usual : 1;
}

export const scale = new Scale();
