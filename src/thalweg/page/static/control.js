// What may be done: each is asked for twice, and what came of it is shown.

import {html, useEffect, useRef, useState} from '/vendor/htm-preact.module.js'
import {clock} from '/words.js'
import {ask} from '/stream.js'
import {Card, Table} from '/panels.js'

export function Control({actions, log, flow}) {
  const [asked, setAsked] = useState(null)
  const mine = actions.filter(one => !one.flow || one.flow === flow), done = log.filter(one => !one.flow || one.flow === flow)
  if (!mine.length && !done.length) return null
  return html`<${Card} id="control" title="Change what runs">
    <div class="actions">${mine.map(one => html`<${Choice} key=${one.flow + one.name} action=${one} choose=${value => setAsked({action: one, value})}/>`)}</div>
    ${done.length > 0 && html`<${Table} label="What was asked for" columns=${[['when', one => clock(one.at_s)], ['what', one => one.action], ['came of it', one => `${one.is_done ? '' : 'refused: '}${one.text}`], ['by', one => one.who]]} rows=${[...done].reverse()} most=${5} mark=${one => one.is_done ? '' : 'refused'}/>`}
    ${asked && html`<${Confirm} ...${asked} close=${() => setAsked(null)}/>`}<//>`
}

function Choice({action, choose}) {
  const [value, setValue] = useState(null), shown = value ?? action.now, id = `do-${action.name}`
  const submit = event => { event.preventDefault(); choose(action.choices.length ? shown : action.least !== null ? Number(shown) : null) }
  return html`<form class="action" onSubmit=${submit}>
    ${action.choices.length > 0 && html`<label for=${id}>${action.label}</label><select id=${id} value=${shown} onChange=${event => setValue(event.target.value)}>${action.choices.map(one => html`<option value=${one} selected=${one === shown}>${one}</option>`)}</select>`}
    ${action.least !== null && html`<label for=${id}>${action.label}</label><input id=${id} type="number" required min=${action.least} max=${action.most} value=${shown} onInput=${event => setValue(event.target.value)}/>`}
    <button type="submit" data-action=${action.name} class=${action.is_final ? 'danger' : ''}>${action.choices.length || action.least !== null ? 'Set …' : `${action.label} …`}</button></form>`
}

function Confirm({action, value, close}) {
  const box = useRef(null), [state, setState] = useState('')
  useEffect(() => box.current.showModal(), [])
  async function confirm() {
    setState('…')
    let done
    try { done = await ask(action.flow, action.name, value) } catch (error) { done = {is_done: false, text: error.message} }
    if (done.is_done) close()
    else setState(done.text)
  }
  return html`<dialog ref=${box} onClose=${close} aria-labelledby="ask-title"><h2 id="ask-title">${action.label}${value === null ? '' : `: ${action.now ? `${action.now} → ` : ''}${value}`}${action.flow ? ` (flow ${action.flow})` : ''}?</h2>
    <p>${action.explains}</p>${action.is_final && html`<p class="warn">This cannot be taken back.</p>`}
    ${state && state !== '…' && html`<p class="warn" role="alert">${state}</p>`}
    <div class="buttons"><button type="button" onClick=${close}>Cancel</button><button type="button" id="confirm" class=${action.is_final ? 'danger' : 'primary'} disabled=${state === '…'} onClick=${confirm}>Do it</button></div></dialog>`
}
