//! JSON, as far as schema.json uses it.

use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// A member of an object; `Null` where there is none.
    pub fn get(&self, name: &str) -> &Json {
        match self {
            Json::Object(members) => members.get(name).unwrap_or(&Json::Null),
            _ => &Json::Null,
        }
    }
    pub fn has(&self, name: &str) -> bool {
        matches!(self, Json::Object(members) if members.contains_key(name))
    }
    pub fn text(&self) -> &str {
        match self {
            Json::Text(text) => text,
            _ => "",
        }
    }
    pub fn list(&self) -> &[Json] {
        match self {
            Json::List(items) => items,
            _ => &[],
        }
    }
    pub fn is_true(&self) -> bool {
        *self == Json::Bool(true)
    }
}

pub fn parse(text: &str) -> Result<Json, String> {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
    let value = reader.value()?;
    reader.space();
    if reader.at == reader.bytes.len() {
        Ok(value)
    } else {
        Err(reader.wanted("the end"))
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn wanted(&self, what: &str) -> String {
        format!("byte {}: expected {what}", self.at)
    }
    fn space(&mut self) {
        while self.bytes.get(self.at).map_or(false, u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }
    /// Whether the next character is this one, which is then behind.
    fn takes(&mut self, c: u8) -> bool {
        self.space();
        let is = self.bytes.get(self.at) == Some(&c);
        self.at += is as usize;
        is
    }
    fn must_take(&mut self, c: u8) -> Result<(), String> {
        if self.takes(c) {
            Ok(())
        } else {
            Err(self.wanted(&(c as char).to_string()))
        }
    }
    fn word(&mut self, word: &str, value: Json) -> Result<Json, String> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.wanted(word));
        }
        self.at += word.len();
        Ok(value)
    }

    fn value(&mut self) -> Result<Json, String> {
        self.space();
        match self.bytes.get(self.at) {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => self.string().map(Json::Text),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            _ => self.number(),
        }
    }
    fn object(&mut self) -> Result<Json, String> {
        self.must_take(b'{')?;
        let mut members = BTreeMap::new();
        if self.takes(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            let name = self.string()?;
            self.must_take(b':')?;
            members.insert(name, self.value()?);
            if !self.takes(b',') {
                break;
            }
        }
        self.must_take(b'}')?;
        Ok(Json::Object(members))
    }
    fn array(&mut self) -> Result<Json, String> {
        self.must_take(b'[')?;
        let mut items = Vec::new();
        if self.takes(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value()?);
            if !self.takes(b',') {
                break;
            }
        }
        self.must_take(b']')?;
        Ok(Json::List(items))
    }
    fn number(&mut self) -> Result<Json, String> {
        let begin = self.at;
        while self.bytes.get(self.at).map_or(false, |c| b"+-.eE0123456789".contains(c)) {
            self.at += 1;
        }
        let text = std::str::from_utf8(&self.bytes[begin..self.at]).unwrap_or("");
        if let Ok(whole) = text.parse() {
            return Ok(Json::Int(whole));
        }
        text.parse().map(Json::Float).map_err(|_| self.wanted("a number"))
    }
    fn string(&mut self) -> Result<String, String> {
        self.must_take(b'"')?;
        let mut text = Vec::new();
        loop {
            let c = *self.bytes.get(self.at).ok_or_else(|| self.wanted("\""))?;
            self.at += 1;
            match c {
                b'"' => return String::from_utf8(text).map_err(|_| self.wanted("UTF-8")),
                b'\\' => self.escape(&mut text)?,
                _ => text.push(c),
            }
        }
    }
    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), String> {
        let c = *self.bytes.get(self.at).ok_or_else(|| self.wanted("an escape"))?;
        self.at += 1;
        let plain = match c {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            b'u' => return self.unicode(text),
            other => other,
        };
        text.push(plain);
        Ok(())
    }
    fn unicode(&mut self, text: &mut Vec<u8>) -> Result<(), String> {
        let digits = self.bytes.get(self.at..self.at + 4).and_then(|d| std::str::from_utf8(d).ok());
        let code = digits.and_then(|d| u32::from_str_radix(d, 16).ok()).ok_or_else(|| self.wanted("four digits"))?;
        self.at += 4;
        let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER); // half of a pair: not in a schema
        text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }
}
