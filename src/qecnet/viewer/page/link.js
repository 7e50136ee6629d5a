// The socket: one wish on its way at a time, and after its reply the newest one, so that none waits behind another.

import { unpacked } from "./wire.js";

export class Link {
  // `wish()` gives what is wanted now; `on` hears hello, reply, trouble, closed.
  constructor(wish, on) {
    this.wish = wish;
    this.on = on;
    this.number = 0;
    this.waiting = false;
    this.wanted = false;
    this.open();
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.socket = new WebSocket(`${scheme}://${location.host}/socket`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = (event) => this.hear(unpacked(event.data));
    this.socket.onclose = () => {
      this.waiting = false;
      this.on.closed();
      setTimeout(() => this.open(), 2000);
    };
  }

  get settled() {
    return !this.waiting && !this.wanted && this.socket.readyState === WebSocket.OPEN;
  }

  want() {
    this.wanted = true;
    this.send();
  }

  send() {
    if (this.waiting || !this.wanted || this.socket.readyState !== WebSocket.OPEN) return;
    const wish = this.wish();
    if (!wish) return;
    this.wanted = false;
    this.waiting = true;
    this.number += 1;
    this.asked = wish;
    this.socket.send(JSON.stringify({ number: this.number, ...wish }));
  }

  hear({ header, arrays }) {
    if (header.hello) {
      this.on.hello(header.hello);
      this.want();
      return;
    }
    if (header.number === undefined || header.number === this.number) this.waiting = false;
    if (header.trouble) this.on.trouble(header.trouble);
    else this.on.reply(header, arrays, this.asked);
    this.send();
  }
}
