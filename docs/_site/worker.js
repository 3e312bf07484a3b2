// The search of a site that is read from a folder. Browsers start no worker for a file: address, so the worker's script runs in a hidden
// frame instead. The theme would load a script for this from the network. Its search asks for the name IFrameWorker.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super()
    const frame = document.createElement("iframe")
    frame.hidden = true
    document.body.append(frame)
    this.inside = frame.contentWindow
    this.inside.postMessage = data => {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      this.onmessage?.(event)
    }
    const load = src => new Promise((resolve, reject) => {
      const script = frame.contentDocument.createElement("script")
      Object.assign(script, { src, onload: resolve, onerror: reject })
      frame.contentDocument.body.append(script)
    })
    this.inside.importScripts = (...urls) => urls.reduce((before, next) => before.then(() => load(next)), Promise.resolve())
    this.ready = load(new URL(url, document.baseURI).href)
  }
  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })))
  }
  terminate() {}
}
if (location.protocol === "file:") Object.assign(window, { IFrameWorker, Worker: IFrameWorker })
