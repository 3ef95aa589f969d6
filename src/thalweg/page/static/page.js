// The page: follows what the server tells and draws it. Preact makes text nodes of all texts, and the policy of the
// document refuses markup made of text at all.

import {html, render, useState} from '/vendor/htm-preact.module.js'
import {follow, token} from '/stream.js'
import {duration, share} from '/words.js'
import {GROUPED_FROM, allGroups} from '/layout.js'
import {Graph} from '/graph.js'
import {Batches, Chart} from '/charts.js'
import {BadRows, BatchTable, Card, Changes, Details, Keys, Links, Operators, Policy, Sinks, Sources, Tiles, Verdict} from '/panels.js'
import {Control} from '/control.js'

const KEPT = 600
const dark = matchMedia('(prefers-color-scheme: dark)')
const now = {told: null, link: 'connecting', why: '', points: new Map(), at: 0}

function draw() {
  render(html`<${Page} ...${now}/>`, document.getElementById('page'))
}

follow((event, data) => {
  if (event === 'history') {
    for (const [name, points] of Object.entries(data)) now.points.set(name, points)
  } else if (data.flows) {
    now.told = data
    for (const one of data.flows) keep(one)
  } else now.why = data.trouble || ''
  if (!document.hidden || event === 'last') draw()
}, (link, why) => { now.link = link; now.why = why; draw() })
addEventListener('hashchange', () => location.reload())
document.addEventListener('visibilitychange', () => document.hidden || draw())

function keep({snapshot, rate}) {
  const points = now.points.get(snapshot.flow) || [], at = snapshot.at_s ?? now.told.at_s
  if (!points.length || at > points.at(-1)[0]) points.push([at, rate, snapshot.threads, snapshot.slots, snapshot.keys?.stay ?? null])
  if (points.length > KEPT) points.shift()
  now.points.set(snapshot.flow, points)
}

const saved = () => { try { return localStorage.getItem('thalweg-theme') } catch { return null } }
const themeNow = () => document.documentElement.dataset.theme || (dark.matches ? 'dark' : 'light')
if (saved()) document.documentElement.dataset.theme = saved()
dark.addEventListener('change', draw)

function turn() {
  const other = themeNow() === 'dark' ? 'light' : 'dark'
  document.documentElement.dataset.theme = other
  try { localStorage.setItem('thalweg-theme', other) } catch { /* a private window keeps nothing */ }
  draw()
}

const LINKS = {connecting: 'connecting …', live: 'live', away: 'no answer; trying again …', over: 'has ended; this is the last', refused: 'refused'}

function Page({told, link, why, points}) {
  const [chosen, choose] = useState('')
  const one = told?.flows.find(flow => flow.snapshot.flow === chosen) || told?.flows[0]
  document.title = one ? `${one.snapshot.flow || 'flow'} · Thalweg` : 'Thalweg'
  return html`<header><span class="brand"><img src="/icon.svg" alt="" width="22" height="22"/>Thalweg</span>
      ${told && told.flows.length > 1 ? html`<nav aria-label="Flows">${told.flows.map(flow => html`<button type="button" key=${flow.snapshot.flow} aria-current=${flow === one} onClick=${() => choose(flow.snapshot.flow)}>${flow.snapshot.flow} <span class=${`dot ${flow.snapshot.status}`}></span></button>`)}</nav>` : one && html`<h1>${one.snapshot.flow || 'flow'}</h1>`}
      ${one && html`<span class=${`pill ${one.snapshot.status}`} data-field="status">${one.snapshot.status}</span><span class="soft" data-field="host">${one.snapshot.host}, ${duration(one.snapshot.seconds)}</span>`}
      <span class="gap"></span><span class=${`link-state ${link}`} role="status" data-field="link">${LINKS[link]}</span>
      <button type="button" aria-label="Light or dark" id="theme" onClick=${turn}>${themeNow() === 'dark' ? '☀' : '☾'}</button></header>
    <main>${link === 'refused' || !token ? html`<p class="notice warn" role="alert">${token ? why : 'The token is missing: open the whole address that was printed, with what stands behind #.'}</p>`
      : !one ? html`<p class="notice" role="status">${told ? 'No flow runs here yet.' : `${LINKS[link]} ${why}`}</p>`
      : html`<${Flow} key=${one.snapshot.flow} told=${one} points=${points.get(one.snapshot.flow) || []} actions=${told.actions} log=${told.log || []} theme=${themeNow()}/>`}</main>`
}

function Flow({told, points, actions, log, theme}) {
  const {snapshot, seen} = told
  const [open, setOpen] = useState(() => snapshot.operators.length < GROUPED_FROM ? allGroups(snapshot) : new Set())
  const [selected, select] = useState('')
  const replicas = snapshot.changes.filter(one => one.what === 'replicas')
  const width = [{label: 'threads', of: one => one[2], colour: '--one', stepped: true}, ...(snapshot.slots > 1 || points.some(one => one[3] > 1) ? [{label: 'slots', of: one => one[3], colour: '--two', stepped: true, dash: [6, 4]}] : [])]
  const stays = points.some(one => one[4] !== null)
  return html`${seen && html`<${Seen} seen=${seen} status=${snapshot.status}/>`}
    ${snapshot.error && html`<p class="notice warn" role="alert" data-field="error">${snapshot.error}</p>`}
    <${Tiles} told=${told}/><${Verdict} told=${told} select=${select}/>
    <div class=${selected ? 'split' : ''}><${Graph} told=${told} open=${open} setOpen=${setOpen} selected=${selected} select=${select}/>
      ${selected && html`<${Details} told=${told} selected=${selected} select=${select} open=${open} setOpen=${setOpen}/>`}</div>
    <section class="card charts" aria-label="Over time">
      <${Chart} title="Rows/s in" theme=${theme} points=${points} series=${[{label: 'now', of: one => one[1], colour: '--one'}]}/>
      <${Chart} title="Threads and slots" theme=${theme} points=${points} series=${width}/>
      ${stays && html`<${Chart} title="Tuples that stay in their slot" theme=${theme} points=${points} values=${share} most=${1} series=${[{label: 'last batch', of: one => one[4], colour: '--two'}]}/>`}
    </section>
    <div class="cards">
      <${Sources} told=${told}/>
      ${snapshot.bad_rows.length > 0 && html`<${BadRows} snapshot=${snapshot}/>`}
      ${snapshot.sinks.length > 0 && html`<${Sinks} snapshot=${snapshot}/>`}
      ${snapshot.changes.length > 0 && html`<${Changes} snapshot=${snapshot}/>`}
      ${snapshot.keys && html`<${Keys} keys=${snapshot.keys}/>`}
      ${snapshot.policy && html`<${Policy} policy=${snapshot.policy}/>`}
      ${snapshot.batches.length > 0 && html`<${Card} id="batches" title="Batches"><div class="scroll"><${Batches} batches=${snapshot.batches}/></div><${BatchTable} batches=${snapshot.batches}/><//>`}
      ${actions && html`<${Control} actions=${actions} log=${log} flow=${snapshot.flow}/>`}
    </div>
    <${Operators} told=${told} select=${select}/><${Links} links=${snapshot.links}/>
    <footer class="soft">Keys: Tab to the graph, arrows from node to node, Enter for details, Escape to close them.</footer>`
}

function Seen({seen, status}) {
  const where = `process ${seen.pid} on ${seen.machine}`, age = duration(seen.age_s)
  if (status !== 'running') return html`<p class="notice" data-field="seen">${status} ${age} ago in ${where}</p>`
  if (seen.is_alive === false) return html`<p class="notice warn" data-field="seen">${where} is gone: this is what it did ${age} ago</p>`
  return html`<p class="notice" data-field="seen">${where}, ${age} ago</p>`
}

document.getElementById('page').replaceChildren()
draw()
