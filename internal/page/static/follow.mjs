// A scroller whose end is followed until one scrolls up.

export class Follower {
  // body is what the scroller shows, and following is called with whether the end is followed.
  constructor(scroller, body, following) {
    Object.assign(this, { scroller, following, follow: true, top: 0 });
    this.onScroll = () => this.scrolled();
    scroller.addEventListener('scroll', this.onScroll, { passive: true });
    this.sizes = new ResizeObserver(() => this.resized()); // a picture comes after its line
    this.sizes.observe(scroller);
    this.sizes.observe(body);
    this.anchor();
  }

  // scrolled notices that one has left the end, or come back to it. If the body has grown since the
  // scroll, the end is elsewhere, so only a scroll up leaves it.
  scrolled() {
    const { scrollTop } = this.scroller;
    this.setFollow(scrollTop > this.place() - 8 || this.follow && scrollTop > this.top - 2);
    this.top = scrollTop;
  }

  resized() { if (this.follow) this.toEnd(); }

  // place returns where the end is.
  place() { return this.scroller.scrollHeight - this.scroller.clientHeight; }

  setFollow(follow) {
    if (follow !== this.follow) this.following(follow);
    this.follow = follow;
    this.anchor();
  }

  // anchor lets the browser keep what one reads in its place when something above goes. At the end that would
  // look like a scroll up.
  anchor() { this.scroller.style.overflowAnchor = this.follow ? 'none' : 'auto'; }

  toEnd() {
    this.setFollow(true);
    this.scroller.scrollTop = this.place();
    this.top = this.scroller.scrollTop;
  }

  close() {
    this.sizes.disconnect();
    this.scroller.removeEventListener('scroll', this.onScroll);
  }
}
