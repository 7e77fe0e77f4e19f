// node asyncapi.mjs FILE: what the official parser finds in an AsyncAPI document, a line of JSON each.

import { readFileSync } from 'node:fs'
import { Parser } from '@asyncapi/parser'

const { document, diagnostics } = await new Parser().parse(readFileSync(process.argv[2], 'utf8'))
for (const { severity, code, path, message } of diagnostics) console.log(JSON.stringify({ severity, code, path: path.join('.'), message }))
if (document) console.log(JSON.stringify({ version: document.version(), channels: document.channels().all().map(it => it.address()) }))
process.exitCode = document ? 0 : 1
